// SPDX-License-Identifier: Apache-2.0
// A tcp_group over any broadcast of bytes that you have: here, over a key-value store like
// torch.distributed's TCPStore.
#include <cairn/cairn.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

/// Stands for your own store: keys are files in a directory.
class key_value_store {
public:
    explicit key_value_store(std::filesystem::path dir) : dir_(std::move(dir)) {
        std::filesystem::create_directories(dir_);
    }
    void set(const std::string& key, std::span<const std::byte> value) {
        std::ofstream(dir_ / "new", std::ios::binary)
            .write(reinterpret_cast<const char*>(value.data()),
                   static_cast<std::streamsize>(value.size()));
        std::filesystem::rename(dir_ / "new", dir_ / key);
    }
    /// Waits until the key is set.
    std::string get(const std::string& key) {
        while (!std::filesystem::exists(dir_ / key))
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        std::ifstream in(dir_ / key, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

private:
    std::filesystem::path dir_;
};

int train(int rank, int size, key_value_store& store) {
    // Called once on every rank, with root 0.
    auto const broadcast = [&](std::span<std::byte> bytes, int root) {
        if (rank == root) return store.set("cairn", bytes);
        auto const value = store.get("cairn");
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(value.at(i));
    };
    cairn::tcp_group ranks(rank, size, broadcast);

    std::vector<float> weights(8, 3.0f), again(8);
    cairn::save(cairn::state_dict{{"weights", weights}}, "ckpt/own_broadcast", ranks);
    cairn::load(cairn::state_dict{{"weights", again}}, "ckpt/own_broadcast", ranks);
    return again == weights ? 0 : 1;
}

int main() {
    constexpr int size = 3;
    std::filesystem::remove_all("ckpt/store");
    for (int rank = 0; rank < size; ++rank) {
        auto const child = ::fork();
        if (child < 0) {
            std::perror("fork");
            return 1;
        }
        if (child > 0) continue;
        int code = 1;
        try {
            key_value_store store("ckpt/store");
            code = train(rank, size, store);
        } catch (const std::exception& e) {
            std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
        }
        ::_exit(code);
    }
    int wrong = 0;
    for (int status = 0; ::wait(&status) > 0;) wrong += status != 0;
    std::printf("own broadcast: %d ranks wrong\n", wrong);
    return wrong;
}
