// SPDX-License-Identifier: Apache-2.0
// What becomes of the nested containers in a file of torch.save.
#include "torch_save_file.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(torch_save_containers)

namespace {

using namespace torch_save_file;
using cairn::value;

}  // namespace

BOOST_AUTO_TEST_CASE(containers_are_taken_apart_as_dcp_does) {
    pickled p;
    p.begin_dict();
    p.key("ordered");
    p.w.global("collections", "OrderedDict");
    p.w.op(')');
    p.w.op('R');
    p.w.mark();
    p.key("x");
    p.w.integer(1);
    p.w.op('u');
    p.begin_dict();  // its attribute `_metadata`
    p.key("_metadata");
    p.w.integer(2);
    p.end_dict();
    p.w.op('b');
    p.key("default");
    p.w.global("collections", "defaultdict");
    p.w.global("builtins", "list");
    p.w.op(0x85);
    p.w.op('R');
    p.w.mark();
    p.w.boolean(true);
    p.w.integer(3);
    p.w.op('u');
    p.key("counter");
    p.w.global("collections", "Counter");
    p.begin_dict();
    p.w.none();
    p.w.integer(4);
    p.end_dict();
    p.w.op(0x85);
    p.w.op('R');
    p.key("keys");  // a tuple as a key: the dict is a value
    p.begin_dict();
    p.w.integer(1);
    p.w.op(0x85);
    p.w.integer(5);
    p.end_dict();
    p.key("nothing");
    p.w.op('}');
    p.key("lists");
    p.w.op(']');
    p.w.mark();
    p.w.op(']');
    p.w.integer(6);
    p.w.op('e');
    p.end_dict();
    opened const o(p.zip({}));
    BOOST_TEST(o.all.entries().size() == 6u);
    BOOST_TEST((o.at("ordered.x") == value(1)));
    BOOST_TEST((o.at("default.True") == value(3)));
    BOOST_TEST((o.at("counter.None") == value(4)));
    BOOST_TEST((o.at("keys") == value::dict({{value::tuple({1}), 5}})));
    BOOST_TEST((o.at("nothing") == value::dict({})));
    BOOST_TEST((o.at("lists") == value::list({value::list({}), 6})));
}

BOOST_AUTO_TEST_CASE(a_list_is_taken_apart_for_a_tensor_at_any_depth) {
    pickled p;
    p.begin_dict();
    p.key("deep");
    p.w.op(']');
    p.w.mark();
    p.w.op(']');
    p.w.mark();
    p.tensor("0", 4, 0, {4}, {1});
    p.w.op('e');
    p.w.integer(1);
    p.w.op('e');
    p.end_dict();
    opened const o(p.zip({{"0", std::string(16, 'x')}}));
    BOOST_TEST(o.all.entries().size() == 2u);
    BOOST_TEST((o.tensor("deep.0.0").shape == cairn::index_vector{4}));
    BOOST_TEST((o.at("deep.1") == value(1)));
}

/// The tensor in it never does.
BOOST_AUTO_TEST_CASE(a_parameter_says_whether_it_requires_a_gradient) {
    for (bool const wanted : {true, false}) {
        pickled p;
        p.begin_dict();
        p.key("w");
        p.w.global("torch._utils", "_rebuild_parameter");
        p.w.mark();
        p.tensor("0", 4, 0, {4}, {1});
        p.w.boolean(wanted);
        p.w.global("collections", "OrderedDict");
        p.w.op(')');
        p.w.op('R');
        p.w.op('t');
        p.w.op('R');
        p.end_dict();
        opened const o(p.zip({{"0", std::string(16, 'x')}}));
        BOOST_TEST(o.tensor("w").requires_grad == wanted);
    }
}

BOOST_AUTO_TEST_CASE(an_ordered_dict_of_python_2_is_a_list_of_pairs) {
    pickled p;
    p.w.global("collections", "OrderedDict");
    p.w.op(']');
    p.w.mark();
    for (auto const* name : {"a", "b"}) {
        p.w.op(']');
        p.w.mark();
        p.key(name);
        p.tensor("0", 4, name[0] - 'a', {1}, {1}, "FloatStorage", true);
        p.w.op('e');
    }
    p.w.op('e');
    p.w.op(0x85);
    p.w.op('R');
    opened const o(p.legacy({"0"}, {{"0", std::string(16, 'x')}}));
    BOOST_TEST(o.all.entries().size() == 2u);
    BOOST_TEST(o.tensor("b").storage_offset == 1u);
}

BOOST_AUTO_TEST_CASE(a_file_of_an_empty_dict_has_no_entries) {
    pickled plain, ordered;
    plain.w.op('}');
    ordered.w.global("collections", "OrderedDict");
    ordered.w.op(')');
    ordered.w.op('R');
    BOOST_TEST(opened(plain.zip({})).all.entries().empty());
    BOOST_TEST(opened(ordered.zip({})).all.entries().empty());
}

BOOST_AUTO_TEST_CASE(the_last_of_equal_keys_counts_and_a_number_is_not_its_text) {
    pickled p;
    p.begin_dict();
    for (int i : {1, 2}) {
        p.key("twice");
        p.w.integer(i);
    }
    p.key("mixed");
    p.begin_dict();
    p.w.integer(1);
    p.w.integer(3);
    p.key("1");
    p.w.integer(4);
    p.end_dict();
    p.end_dict();
    opened const o(p.zip({}));
    BOOST_TEST((o.at("twice") == value(2)));
    BOOST_TEST((o.at("mixed") == value::dict({{1, 3}, {"1", 4}})));
}

BOOST_AUTO_TEST_SUITE_END()
