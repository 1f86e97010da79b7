// SPDX-License-Identifier: Apache-2.0
// unloaded LIBRARY: a library that saves is unloaded while its thread gives back the space of
// removed files. Ends with 77, which tests call skipped, where it makes no such thread.
#include "support/scratch.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <thread>

namespace {

std::size_t threads() {
    auto const all = std::filesystem::directory_iterator("/proc/self/task");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}
int fail(const char* what) {
    std::cout << what << "\n";
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return fail("usage: unloaded LIBRARY");
    support::scratch const dir;
    void* const library = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail(::dlerror());
    auto const save = reinterpret_cast<bool (*)(const char*)>(::dlsym(library, "save_and_replace"));
    if (save == nullptr) return fail(::dlerror());
    std::thread([] {}).join();  // a sanitizer makes one of its own with the first
    auto const before = threads();
    bool saved = false;
    // A thread that goes on would keep the library for the ends of its thread_local variables.
    std::thread([&] { saved = save(dir.dir.c_str()); }).join();
    if (!saved) return fail("it cannot save");
    if (threads() == before) {
        std::cout << "skipped: no thread gives back space in " << dir.dir << "\n";
        return 77;
    }
    if (::dlclose(library) != 0) return fail(::dlerror());
    if (::dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != nullptr) return fail("it is still loaded");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // longer than its pause
    return threads() == before ? 0 : fail("its thread is still there");
}
