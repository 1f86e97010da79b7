// SPDX-License-Identifier: Apache-2.0
// One process, no group: loads a plain model from a checkpoint, with optimizer, that PyTorch wrote
// from several ranks under FSDP, and prints it.
//
//     toy_print CHECKPOINT
#include <cairn/cairn.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: toy_print CHECKPOINT\n");
        return 2;
    }
    std::vector<float> w1(16 * 16), b1(16), w2(8 * 16), b2(8);
    cairn::state_dict model{
        {"net1.weight", cairn::tensor_view(cairn::dtype::float32, {16, 16}, w1.data())},
        {"net1.bias", b1},
        {"net2.weight", cairn::tensor_view(cairn::dtype::float32, {8, 16}, w2.data())},
        {"net2.bias", b2}};
    cairn::state_dict state{{"model", model}};
    try {
        auto const report = cairn::load(state, argv[1]);
        std::printf("net1.weight[0][:4] = %8.5f %8.5f %8.5f %8.5f\n", w1[0], w1[1], w1[2], w1[3]);
        std::printf("net1.bias[:4]      = %8.5f %8.5f %8.5f %8.5f\n", b1[0], b1[1], b1[2], b1[3]);
        std::printf("net2.bias[:4]      = %8.5f %8.5f %8.5f %8.5f\n", b2[0], b2[1], b2[2], b2[3]);
        std::printf("%zu more keys in the checkpoint, of the optimizer\n",
                    report.unexpected.size());
    } catch (const cairn::error& e) {
        std::fprintf(stderr, "toy_print: %s\n", e.what());
        return 1;
    }
}
