// SPDX-License-Identifier: Apache-2.0
// A trainer of Llama or Mixtral whose ranks are processes, two of which share each tensor, while
// the others divide what these have: with four ranks, TP 2 × FSDP 2. In DIR/map is its mapping.
//
//     trainer MODEL DIR train
//         loads DIR/hf and trains a step, exports that as DIR/export, and saves it under its own
//         names (DIR/own) and under those of the model (DIR/mapped); writes logits before and after
//     trainer MODEL DIR resume FROM TO
//         loads DIR/own, and, with the mapping, DIR/FROM; they are the same on each rank, bit for
//         bit; writes logits, trains another step, and saves DIR/TO under the model's names
#include "trainer/model.hpp"
#include "trainer/ranks.hpp"
#include "trainer/shape.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/mapping/text.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <ios>
#include <iterator>
#include <stdexcept>
#include <string>

namespace {

void write_logits(const std::string& file, trainer::model& m, cairn::tcp_group& all) {
    auto const v = m.logits();
    if (all.rank() != 0) return;
    std::ofstream f(file, std::ios::binary);
    f.write(reinterpret_cast<const char*>(v.data()),
            static_cast<std::streamsize>(v.size() * sizeof(double)));
    if (!f.flush()) throw std::runtime_error("cannot write " + file);
}

void train(trainer::model& m, cairn::tcp_group& all, const std::string& dir,
           const cairn::mapping& how) {
    cairn::load(m.weights(), dir + "/hf", all, how);
    m.set_rate(1e-3);
    write_logits(dir + "/logits_0", m, all);
    m.train();
    write_logits(dir + "/logits_1", m, all);
    cairn::save(m.weights(), dir + "/export", all, how,
                cairn::safetensors_writer(cairn::file_store()));
    cairn::save(m.whole(), dir + "/own", all);
    cairn::save(m.whole(), dir + "/mapped", all, how);
}

void resume(trainer::model& m, trainer::model& other, cairn::tcp_group& all, const std::string& dir,
            const std::string& from, const std::string& to, const cairn::mapping& how) {
    cairn::load(m.whole(), dir + "/own", all);
    cairn::load(other.whole(), dir + "/" + from, all, how);
    if (m.content() != other.content())
        throw std::runtime_error("the state under the model's names is another one");
    write_logits(dir + "/logits_" + to, m, all);
    other.train();
    cairn::save(other.whole(), dir + "/" + to, all, how);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 4 && argc != 6)
            throw std::runtime_error("usage: trainer MODEL DIR train | resume FROM TO");
        std::string const name = argv[1], dir = argv[2];
        auto const shape = name == "llama" ? trainer::llama() : trainer::mixtral();
        std::ifstream text(dir + "/map");
        std::string const lines(std::istreambuf_iterator<char>(text), {});
        auto const how = cairn::parse_mapping(lines, dir + "/map");
        auto all = cairn::tcp_group::from_environment();
        trainer::ranks grid(all);
        trainer::model m(shape, grid), other(shape, grid);
        if (argc == 4)
            train(m, all, dir, how);
        else
            resume(m, other, all, dir, argv[4], argv[5], how);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "trainer: %s\n", e.what());
        return 1;
    }
}
