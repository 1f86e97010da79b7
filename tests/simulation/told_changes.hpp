// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_TOLD_CHANGES_HPP
#define CAIRN_TEST_SIMULATION_TOLD_CHANGES_HPP

#include "findings.hpp"
#include "storage_server.hpp"

#include <string>

namespace simulation {

/// Says what changes in the storage, before a rule looks at it.
class told_changes final : public storage_watch {
public:
    told_changes(const findings& f, storage_watch& to) : findings_(f), to_(to) {}

    void placed(const std::string& name, const stored& file, int by) override {
        if (findings_.say) findings_.say("process " + std::to_string(by) + " makes " + name);
        to_.placed(name, file, by);
    }
    void removed(const std::string& name, const stored& file, int by) override {
        if (findings_.say) findings_.say("process " + std::to_string(by) + " removes " + name);
        to_.removed(name, file, by);
    }
    void synced() override { to_.synced(); }
    void looked(const std::string& name, int by) override { to_.looked(name, by); }
    void taken(const std::string& name, const stored& file, int by) override {
        if (findings_.say) findings_.say("process " + std::to_string(by) + " finds " + name);
        to_.taken(name, file, by);
    }

private:
    const findings& findings_;
    storage_watch& to_;
};

}  // namespace simulation

#endif
