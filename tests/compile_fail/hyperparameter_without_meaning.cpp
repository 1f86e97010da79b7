// SPDX-License-Identifier: Apache-2.0
// expect: hyperparameter: specialise cairn::value_traits for this type
// at most 20 lines
#include <cairn/models/optimizer.hpp>

struct schedule {
    double warm_up;
};
#ifdef BASELINE
template <>
struct cairn::value_traits<schedule> {
    static value to_value(const schedule& s) { return s.warm_up; }
    static void from_value(schedule& s, const value& v) { s.warm_up = v.as<double>(); }
};
#endif

void f(cairn::optimizer_visitor& v, schedule& s) {
    v.hyperparameter("lr", s);
}
