// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_RECORDER_HPP
#define CAIRN_TEST_CRASH_RECORDER_HPP

#include "disk.hpp"
#include "operation.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace crash {

/// The host on whose behalf this thread makes calls.
class on_host {
public:
    explicit on_host(int host);
    on_host(on_host&&) = delete;
    ~on_host();
    static int current();

private:
    int before_;
};

/// Records what this program does below a directory, as operations on a `disk`. One at a time;
/// threads may make calls that commute at the same time.
class recorder {
public:
    /// @param root  Canonical. What is there is durable.
    explicit recorder(std::filesystem::path root);
    recorder(recorder&&) = delete;
    ~recorder();

    const image& beginning() const { return beginning_; }
    operations take() { return std::move(all_); }
    const operations& all() const { return all_; }
    /// What was committed last is promised to survive.
    void promise();

    /// Called before each call that changes something; false: it fails, without effect.
    std::function<bool(int host)> before;
    /// Called after it, with what was recorded.
    std::function<void(const operation&)> after;

private:
    void add(operation o);
    std::map<std::string, int> taken(const std::string& path);
    std::optional<int> number(const std::string& path) const;
    std::string relative(const std::string& path) const;

    std::recursive_mutex m_{};  ///< Protects what follows, but for the first two.
    std::filesystem::path root_;
    image beginning_;
    operations all_{};
    std::map<std::string, int> numbers_{};  ///< Of what is there now, by path.
    int next_ = 1;
};

/// Everything below a directory.
image read_image(const std::filesystem::path& root);
/// Makes an empty directory hold this.
void write_image(const image& i, const std::filesystem::path& root);

}  // namespace crash

#endif
