// SPDX-License-Identifier: Apache-2.0
// fixtures DIR: writes DIR/base and, beside it, checkpoints that differ from it in one thing each.
#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace {

struct content {
    std::vector<float> w{0, 1, 2, 3, 4, 5};
    std::vector<double> wide{0, 1, 2, 3, 4, 5};
    std::vector<std::int64_t> whole{1, 2, 3};
    cairn::index_vector shape{2, 3};
    bool as_double = false;
    bool with_whole = true;
    cairn::value step = 7;
};

void save(const std::string& path, const std::function<void(content&)>& change = {}) {
    content c;
    if (change) change(c);
    cairn::state_dict sd{{"step", std::as_const(c.step)}};
    if (c.as_double)
        sd["w"] = cairn::tensor_view(cairn::dtype::float64, c.shape, c.wide.data());
    else
        sd["w"] = cairn::tensor_view(cairn::dtype::float32, c.shape, c.w.data());
    if (c.with_whole) sd["whole"] = cairn::tensor_view(cairn::dtype::int64, {3}, c.whole.data());
    cairn::save(sd, path);
}

/// What is small on disk and long to print: rows of nothing, a huge number; a weight of many names.
void odd(const std::string& path) {
    std::vector<float> w(std::size_t{1} << 18, 1.0f);
    std::vector<std::uint8_t> digits(std::size_t{1} << 20, 0x5a);
    cairn::state_dict sd{
        {"rows", cairn::tensor_view(cairn::dtype::float32, {std::int64_t{1} << 50, 0}, nullptr)},
        {"few", cairn::tensor_view(cairn::dtype::float32, {2, 0}, nullptr)},
        {"number", cairn::value(cairn::big_int(digits))}};
    for (int i = 0; i < 20; ++i) sd["w" + std::to_string(i)] = w;
    cairn::save(sd, path);
}

/// Names that a terminal would obey, and one that is a str of Python's alone.
void names(const std::string& path) {
    std::vector<float> w(4, 1.0f);
    cairn::state_dict sd{{"a\x1b[2J\xc2\x9b", w}, {"s\xed\xb2\x80", "\xed\xa0\x80\x7f"}};
    cairn::save(sd, path);
}

/// More than the tool reads at once, in one chunk.
void large(const std::string& path) {
    std::vector<float> w(std::size_t{40} << 20, 1.0f);
    cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::float32, {40, 1 << 20}, w.data())}};
    cairn::save(sd, path);
}

/// Values that are longer than anybody reads, and differ in one place.
void long_values(const std::string& path, char letter) {
    std::string text(std::size_t{1} << 20, '.');
    text[text.size() / 2] = letter;
    cairn::save(cairn::state_dict{{"text", cairn::value(text)}}, path);
}

/// Checkpoints of a training that went back, and what a save of this process has left that will
/// have ended.
void series(const std::string& dir) {
    cairn::checkpointer ckpt(cairn::solo(), dir);
    std::vector<float> w(4, 1.0f);
    cairn::state_dict state{{"w", w}};
    for (std::int64_t const step : {100, 300, 200}) {
        (void)ckpt.save_now(step, state, {.metrics = {{"loss", step == 100 ? NAN : 0.5}}});
        (void)ckpt.wait();
    }
    cairn::detail::save_intent intent;
    intent.save_id = std::string(32, 'a');
    intent.began = cairn::detail::save_intent::now();
    intent.owner = cairn::detail::record_owner::this_one();
    intent.names = {"__0_0.distcp"};
    cairn::file_store place(dir + "/step_400");
    place.publish(".saving." + intent.save_id, intent.encode(), std::nullopt);
    place.create("__0_0.distcp", 7).finish(true);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: fixtures DIR\n";
        return 2;
    }
    std::string const dir = argv[1];
    try {
        save(dir + "/base");
        save(dir + "/bytes", [](content& c) {
            c.w[4] = 4.5f;
            c.w[5] = 3.0f;
        });
        save(dir + "/shape", [](content& c) { c.shape = {3, 2}; });
        save(dir + "/dtype", [](content& c) { c.as_double = true; });
        save(dir + "/missing", [](content& c) { c.with_whole = false; });
        save(dir + "/object", [](content& c) { c.step = cairn::value::tuple({7, "eight"}); });
        save(dir + "/kind", [](content& c) { c.with_whole = false; });
        cairn::state_dict kind{{"step", 7}, {"w", 1.5}};
        cairn::save(kind, dir + "/kind");
        cairn::state_dict plain{{"step", 7}};
        std::vector<float> weight{1, 2, 3, 4};
        cairn::state_dict const tied{{"embed", weight}, {"head", weight}};
        cairn::save(tied, dir + "/tied");

        cairn::save_options without_pickle;
        without_pickle.storage.torch_metadata = false;
        cairn::save(plain, dir + "/no_pickle", without_pickle);
        // Long enough that a reader of its first bytes leaves while the rest is being written.
        std::vector<float> big(std::size_t{1} << 20, 1.0f);
        cairn::state_dict many{{"big", big}};
        cairn::save(many, dir + "/big");
        cairn::state_dict small;
        for (int i = 0; i < 5000; ++i) small["w" + std::to_string(i)] = std::vector<float>{1, 2};
        cairn::save(small, dir + "/small");
        odd(dir + "/odd");
        names(dir + "/names");
        large(dir + "/large");
        long_values(dir + "/long_a", 'a');
        long_values(dir + "/long_b", 'b');
        series(dir + "/series");
    } catch (const std::exception& e) {
        std::cerr << "fixtures: " << e.what() << "\n";
        return 2;
    }
    return 0;
}
