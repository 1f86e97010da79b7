// SPDX-License-Identifier: Apache-2.0
// For ThreadSanitizer alone. The system's libstdc++ is not instrumented, so the sanitizer does not
// see that references to an exception are counted with atomic operations, and takes its destruction
// by whoever drops the last one for a race with all who have read it. Here each that drops one says
// so: an exception_ptr, and the end of a handler.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <exception>

namespace {

/// The library's own function of that name.
template <class F>
F* real(const char* name) {
    return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void std::__exception_ptr::exception_ptr::_M_release() noexcept {
    static auto* const release =
        real<void(exception_ptr*)>("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
    if (_M_exception_object == nullptr) return;
    __tsan_release(_M_exception_object);
    __tsan_acquire(_M_exception_object);
    release(this);
}

extern "C" void __cxa_end_catch() {
    static auto* const end_catch = real<void()>("__cxa_end_catch");
    // Dropped again at once, by the function above. Null for what is not C++'s.
    (void)std::current_exception();
    end_catch();
}
