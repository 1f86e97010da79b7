// SPDX-License-Identifier: Apache-2.0
// expect: Communicator
// expect: gather
#include <cairn/comm/concepts.hpp>

struct half_a_communicator {
    int rank() const { return 0; }
    int size() const { return 1; }
#ifdef BASELINE
    void gather(cairn::message, int, cairn::deadline,
                cairn::completion<std::vector<cairn::message>>) {}
#endif
    void scatter(std::vector<cairn::message>, int, cairn::deadline,
                 cairn::completion<cairn::message>) {}
    void broadcast(cairn::message, int, cairn::deadline, cairn::completion<cairn::message>) {}
    void all_gather(cairn::message, cairn::deadline,
                    cairn::completion<std::vector<cairn::message>>) {}
    void share(std::shared_ptr<const cairn::activity>) {}
    void cancel() noexcept {}
};

void use(cairn::Communicator auto&) {}
void f(half_a_communicator& c) {
    use(c);
}
