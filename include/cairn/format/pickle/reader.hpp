// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_PICKLE_READER_HPP
#define CAIRN_FORMAT_PICKLE_READER_HPP

#include <cairn/format/pickle/latin1.hpp>
#include <cairn/format/pickle/tree.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::pickle {

/// Reads one pickle of protocol 2 to 5 into a @ref tree, with the opcodes that PyTorch's
/// checkpoints use (docs/format.md). Every other opcode is an error: errc::unsupported if Python
/// has it. Nothing is imported or called.
///
/// Time and memory are linear in the bytes read: each opcode makes at most one node, that of a
/// bytearray a few.
class reader {
public:
    /// @param bytes  May continue after the pickle's STOP. Must outlive the tree.
    static tree read(std::span<const std::byte> bytes) { return reader(bytes).run(); }

private:
    explicit reader(std::span<const std::byte> in) : in_(in) {}

    tree run() {
        if (auto const first = u8(); first != 0x80) {
            if (begins_older(first)) beyond_limits("protocol 0 or 1");
            malformed("no protocol mark at its start");
        }
        if (auto const p = u8(); p < 2 || p > 5) beyond_limits("protocol " + std::to_string(p));
        while (!stopped_) step(u8());
        t_.source_bytes = at_;
        return std::move(t_);
    }

    void step(std::uint8_t op) {
        switch (op) {
            case 0x95: {  // FRAME: the length must fit; otherwise ignored
                auto const n = u64();
                if (n > in_.size() - at_) ends_early("a frame longer than the data", n);
                return;
            }
            case '.':
                t_.root = pop();
                stopped_ = true;
                return;
            case 'N': return push(tree::none());
            case 0x88: return push(tree::boolean(true));
            case 0x89: return push(tree::boolean(false));
            case 'K': return integer(u8());
            case 'M': return integer(static_cast<std::int64_t>(little(2)));
            case 'J': return integer(static_cast<std::int32_t>(little(4)));
            case 0x8a: return big(u8());
            case 0x8b: return big(length(little(4)));
            case 'G': return real();
            case 0x8c: return text(node_kind::string, u8());
            case 'U': return text(node_kind::string, u8());
            case 'X': return text(node_kind::string, length(little(4)));
            case 'T': return text(node_kind::string, length(little(4)));
            case 0x8d: return text(node_kind::string, length(u64()));
            case 'C': return text(node_kind::bytes, u8());
            case 'B': return text(node_kind::bytes, length(little(4)));
            case 0x8e: return text(node_kind::bytes, length(u64()));
            case 0x96: return byte_array(length(u64()));
            case ')': return push(tree::empty_tuple());
            case ']': return push(t_.add_container(node_kind::list, {}));
            case '}': return push(t_.add_container(node_kind::dict, {}));
            case 0x8f: return push(t_.add_container(node_kind::set, {}));
            case 't': return collect(node_kind::tuple, pop_mark());
            case 0x91: return collect(node_kind::frozenset, pop_mark());
            case 0x85: return collect(node_kind::tuple, below(1));
            case 0x86: return collect(node_kind::tuple, below(2));
            case 0x87: return collect(node_kind::tuple, below(3));
            case 'a': return extend(node_kind::list, below(1));
            case 'e': return extend(node_kind::list, pop_mark());
            case 0x90: return extend(node_kind::set, pop_mark());
            case 's': return extend(node_kind::dict, below(2));
            case 'u': return extend(node_kind::dict, pop_mark());
            case '(': marks_.push_back(stack_.size()); return;
            case '0': (void)pop(); return;
            case '1': stack_.resize(pop_mark()); return;
            case '2': return push(top());
            case 'c': return global();
            case 0x93: return stack_global();
            case 'R': return call();
            case 0x81: call(); return t_.set_created();
            case 0x92: return new_object_ex();
            case 'b': return build();
            case 'Q': return collect(node_kind::persistent, below(1));
            case 'h': return get(u8());
            case 'j': return get(little(4));
            case 'q': return put(u8());
            case 'r': return put(little(4));
            case 0x94: return put(memo_next_);
            default: {
                auto const found =
                    "opcode " + std::to_string(op) + " at byte " + std::to_string(at_ - 1);
                if (is_pythons(op)) beyond_limits(found);
                malformed(found);
            }
        }
    }

    /// Whether the bytes may be a pickle of protocol 0 or 1, which has no mark.
    bool begins_older(std::uint8_t op) const {
        return in_.back() == std::byte{'.'} &&
               std::string_view("()]}cNIJKLMFGSTUVX").find(static_cast<char>(op)) !=
                   std::string_view::npos;
    }
    /// Whether it is an opcode of protocol 0 or 1, of `copyreg`'s extensions or of out-of-band
    /// buffers.
    static bool is_pythons(std::uint8_t op) {
        return std::string_view("ILFSVPgpldio\x82\x83\x84\x97\x98").find(static_cast<char>(op)) !=
               std::string_view::npos;
    }

    /// @param more  How many bytes there must be from here on.
    [[noreturn]] void ends_early(const char* found, std::uint64_t more) const {
        throw unfinished_pickle(found, more > UINT64_MAX - at_ ? UINT64_MAX : at_ + more);
    }
    std::uint8_t u8() {
        if (at_ >= in_.size()) ends_early("no STOP before the end of the data", 1);
        return static_cast<std::uint8_t>(in_[at_++]);
    }
    std::uint64_t little(int n) {
        std::uint64_t v = 0;
        for (int i = 0; i < n; ++i) v |= std::uint64_t{u8()} << (8 * i);
        return v;
    }
    std::uint64_t u64() { return little(8); }
    std::size_t length(std::uint64_t n) const {
        if (n > in_.size() - at_) ends_early("a length that exceeds the data", n);
        return static_cast<std::size_t>(n);
    }
    std::string_view take(std::size_t n) {
        if (n > in_.size() - at_) ends_early("a length that exceeds the data", n);
        auto const s = std::string_view(reinterpret_cast<const char*>(in_.data()) + at_, n);
        at_ += n;
        return s;
    }

    void push(node_id i) { stack_.push_back(i); }
    std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
    node_id top() const {
        if (stack_.size() <= floor()) malformed("an empty stack");
        return stack_.back();
    }
    node_id pop() {
        auto const i = top();
        stack_.pop_back();
        return i;
    }
    /// Returns the position of the last `n` values of the stack.
    std::size_t below(std::size_t n) const {
        if (stack_.size() - floor() < n) malformed("too few values on the stack");
        return stack_.size() - n;
    }
    /// Returns the position of the values above the last mark, and removes the mark.
    std::size_t pop_mark() {
        if (marks_.empty()) malformed("no mark on the stack");
        auto const first = marks_.back();
        marks_.pop_back();
        return first;
    }
    std::span<const node_id> from(std::size_t first) const {
        return std::span(stack_).subspan(first);
    }

    void integer(std::int64_t v) {
        push(t_.add_number(node_kind::integer, static_cast<std::uint64_t>(v)));
    }
    void big(std::size_t n) {
        auto const digits = take(n);
        if (n > 8) return push(t_.add_text(node_kind::big_integer, digits));
        std::uint64_t v = n != 0 && (digits.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
        for (std::size_t i = 0; i < n; ++i) {
            v &= ~(std::uint64_t{0xff} << (8 * i));
            v |= std::uint64_t{static_cast<std::uint8_t>(digits[i])} << (8 * i);
        }
        push(t_.add_number(node_kind::integer, v));
    }
    void real() {
        std::uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | u8();
        push(t_.add_number(node_kind::real, bits));
    }
    void text(node_kind k, std::size_t n) { push(t_.add_text(k, take(n))); }
    /// Makes the calls that protocol 2 has for it, which `torch.load` accepts with `weights_only`.
    void byte_array(std::size_t n) {
        push(make_global("__builtin__", "bytearray"));
        auto const content = take(n);
        if (content.empty()) {
            push(tree::empty_tuple());
        } else {
            push(make_global("_codecs", "encode"));
            t_.names.push_back(latin1_text(content));
            push(t_.add_text(node_kind::string, t_.names.back()));
            push(t_.add_text(node_kind::string, "latin1"));
            collect(node_kind::tuple, below(2));
            call();
            collect(node_kind::tuple, below(1));
        }
        call();
    }

    /// Collects the values from `first` on into a container.
    void collect(node_kind k, std::size_t first) {
        auto const made = t_.add_container(k, from(first));
        stack_.resize(first);
        push(made);
    }
    /// Adds the values from `first` on to the container below them.
    void extend(node_kind k, std::size_t first) {
        auto const items = from(first);
        if (first <= floor()) malformed("an empty stack");
        auto const target = stack_[first - 1];
        if (k == node_kind::dict && items.size() % 2 != 0) malformed("a key without a value");
        auto const kind = t_.kind(target);
        auto const object = kind == node_kind::object || kind == node_kind::collection;
        if (kind == k ||
            (object && k == node_kind::dict))  // an OrderedDict is extended like a dict
            t_.extend(target, items);
        else if (kind == node_kind::collection && k == node_kind::list)
            t_.extend(t_.children(target)[3], items);
        else if (object && k == node_kind::list && t_.children(target).size() == 3)  // e.g. a deque
            t_.make_collection(target, t_.add_container(k, items));
        else if (object)
            t_.make_opaque(target);
        else if (kind != node_kind::opaque)
            malformed("items for something that is not a container");
        stack_.resize(first);
    }

    void global() {
        auto const line = [&] {
            auto const rest =
                std::string_view(reinterpret_cast<const char*>(in_.data()) + at_, in_.size() - at_);
            auto const n = rest.find('\n');
            if (n == std::string_view::npos) ends_early("a name without an end", rest.size() + 1);
            at_ += n + 1;
            return rest.substr(0, n);
        };
        auto const module = line();
        auto const name = line();
        check_class_name(module, name);
        // The two lines are adjacent in the pickle: one window covers both.
        push(t_.add_text(node_kind::global,
                         std::string_view(module.data(), module.size() + 1 + name.size())));
    }
    void stack_global() {
        auto const first = below(2);
        auto const module = stack_[first], name = stack_[first + 1];
        if (t_.kind(module) != node_kind::string || t_.kind(name) != node_kind::string)
            malformed("a class name that is not a string");
        stack_.resize(first);
        push(make_global(t_.text(module), t_.text(name)));
    }
    static void check_class_name(std::string_view module, std::string_view name) {
        if (module.size() + name.size() > 512) beyond_limits("a class name of more than 512 bytes");
    }
    node_id make_global(std::string_view module, std::string_view name) {
        check_class_name(module, name);
        // Pickles repeat a few classes many times: each name is stored once.
        std::string joined = std::string(module) + "\n" + std::string(name);
        auto const it = globals_.find(joined);
        if (it != globals_.end()) return it->second;
        if (globals_.size() >= 256) beyond_limits("more than 256 classes");
        t_.names.push_back(std::move(joined));
        auto const id = t_.add_text(node_kind::global, t_.names.back());
        globals_.emplace(t_.names.back(), id);
        return id;
    }
    void call() {
        auto const first = below(2);
        if (t_.kind(stack_[first + 1]) != node_kind::tuple)
            malformed("a call whose arguments are not a tuple");
        push(tree::none());  // its state, until there is one
        collect(node_kind::object, first);
    }
    void new_object_ex() {
        auto const first = below(3);
        auto& keywords = stack_[first + 2];
        if (t_.kind(stack_[first + 1]) != node_kind::tuple || t_.kind(keywords) != node_kind::dict)
            malformed("keyword arguments that are not a dict");
        bool const empty = t_.children(keywords).empty();
        keywords = tree::none();
        collect(node_kind::object, first);
        t_.set_created();
        if (!empty) t_.make_opaque(stack_.back());
    }
    void build() {
        auto const state = pop();
        auto const target = top();
        auto const kind = t_.kind(target);
        if (kind == node_kind::object || kind == node_kind::collection)
            t_.set_state(target, state);
        else if (kind != node_kind::opaque)
            malformed("a state for something that is not an object");
    }

    void get(std::uint64_t key) {
        if (key >= memo_.size() || memo_[key] == unset)
            malformed("a memo entry that was never stored");
        push(memo_[key]);
    }
    void put(std::uint64_t key) {
        if (key >= in_.size()) malformed("a memo key beyond the size of the data");
        if (key >= memo_.size()) memo_.resize(key + 1, unset);
        memo_[key] = top();
        ++memo_next_;
    }

    static constexpr node_id unset = ~node_id{0};
    std::span<const std::byte> in_;
    std::size_t at_ = 0;
    bool stopped_ = false;
    tree t_;
    std::vector<node_id> stack_;
    std::vector<std::size_t> marks_;
    std::vector<node_id> memo_;
    std::uint64_t memo_next_ = 0;
    std::map<std::string_view, node_id> globals_;
};

}  // namespace cairn::format::pickle

#endif
