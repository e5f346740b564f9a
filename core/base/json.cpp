#include "keel/core/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "keel/core/base/environment.h"
#include "keel/core/base/read_budget.h"

namespace keel {
namespace {

// This is what the containers of the JSON library take, rounded up to what malloc hands out: a
// member is a node of a std::map, an element has its place in a vector that grows by doubling.
constexpr uint64_t kMemberBytes = 112;
constexpr uint64_t kElementBytes = 56;
constexpr uint64_t kContainerBytes = 64;
constexpr uint64_t kStringBytes = 48;
// The parser keeps a token in two buffers that grow by doubling, so that a long one may take this
// many times its length while it is read.
constexpr uint64_t kTokenCopies = 8;

// Says how far the parser is, and how far it may go before its next event.
struct Progress {
  const std::string& source;
  const uint64_t most_memory;
  size_t position = 0;
  size_t token_end = 0;

  [[noreturn]] void refuse_size() const {
    throw JsonTooLarge({.op = source,
                        .message = "the document would take more than " +
                                   std::to_string(most_memory) + " bytes of memory",
                        .fix = "where it can be trusted, raise the limit (KEEL_READ_BUDGET_MIB, or "
                               "--read-budget of keel's commands)"});
  }
};

// Reads a text and counts, so that a handler knows how far the parser is.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Progress* progress) : at_(at), progress_(progress) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (++progress_->position > progress_->token_end) progress_->refuse_size();
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Progress* progress_;
};

// Builds the document from the parser's events, refusing what JSON leaves to the reader.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, Progress& progress)
      : text_(text), left_(progress.most_memory), progress_(progress) {
    limit_token();
  }

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& token) override {
    if (value == 0 && !is_zero(token))
      refuse(end_of_number(), "number underflow parsing '" + token + "'");
    return add(value);
  }
  bool string(std::string& value) override {
    charge(kStringBytes + value.capacity());
    return add(std::move(value));
  }
  bool binary(Json::binary_t&) override { return false; }  // text has none

  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    charge(2 * name.size());
    if (open_.back()->contains(name))
      refuse(progress_.position, "the key " + quote_json(name) + " stands here twice");
    key_ = name;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    std::string message = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": we
    // count lines ourselves.
    const size_t column = message.find("column ");
    const size_t from = message.find(column == std::string::npos ? "] " : ": ",
                                     column == std::string::npos ? 0 : column);
    if (from != std::string::npos) message.erase(0, from + 2);
    refuse(position, message);
  }

 private:
  [[noreturn]] void refuse(size_t position, const std::string& message) const {
    const auto before = text_.substr(0, position == 0 ? 0 : std::min(position, text_.size()) - 1);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t last_break = before.rfind('\n');
    const size_t column =
        before.size() - (last_break == std::string_view::npos ? 0 : last_break + 1) + 1;
    throw Error({.op = progress_.source + ":" + std::to_string(line) + ":" + std::to_string(column),
                 .message = message});
  }

  static bool is_zero(std::string_view number) {
    const std::string_view mantissa = number.substr(0, number.find_first_of("eE"));
    return mantissa.find_first_of("123456789") == std::string_view::npos;
  }
  // The parser has read the character behind a number, unless the text ends with it.
  size_t end_of_number() const {
    const size_t position = std::min(progress_.position, text_.size());
    const char last = text_[position - 1];
    return last >= '0' && last <= '9' ? position : position - 1;
  }

  void charge(uint64_t bytes) {
    if (bytes > left_) progress_.refuse_size();
    left_ -= bytes;
    limit_token();
  }
  // The next token may take what is left.
  void limit_token() {
    const uint64_t room = left_ / kTokenCopies;
    const size_t rest = text_.size() - std::min(progress_.position, text_.size());
    progress_.token_end = room >= rest ? std::numeric_limits<size_t>::max()
                                       : progress_.position + static_cast<size_t>(room);
  }

  Json* place(Json value) {
    charge(open_.empty() || open_.back()->is_object() ? kMemberBytes : kElementBytes);
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    charge(kContainerBytes);
    if (open_.size() == kMaxJsonDepth) {
      refuse(progress_.position, "nested deeper than " + std::to_string(kMaxJsonDepth));
    }
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  uint64_t left_;
  Progress& progress_;
  Json root_;
  std::vector<Json*>
      open_;  // the containers around this point, outermost first; only the last one grows
  std::string key_;
};

template <class T>
std::string shortest(T value) {
  if (!std::isfinite(value)) return "null";
  char buffer[32];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  return {std::begin(buffer), end};
}

std::string shortened(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = write_json(value);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

JsonTooLarge::~JsonTooLarge() = default;

Json parse_json(std::string_view text, const std::string& source_name) {
  return parse_json(text, source_name, read_budget());
}

Json parse_json(std::string_view text, const std::string& source_name, uint64_t most_memory) {
  Progress progress{source_name, most_memory};
  Builder builder(text, progress);
  Json::sax_parse(CountingIterator(text.data(), &progress),
                  CountingIterator(text.data() + text.size(), &progress), &builder);
  return builder.take();
}

std::string write_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string format_double(double value) { return shortest(value); }
std::string format_float(float value) { return shortest(value); }
std::string quote_json(std::string_view text) { return write_json(Json(text)); }

JsonView::JsonView(const Json& document, std::string source_name)
    : value_(&document), source_(std::move(source_name)) {}

JsonView::JsonView(const Json* value, const JsonView& parent, const std::string& step)
    : value_(value), source_(parent.source_), path_(parent.path_ + step) {}

std::string JsonView::where() const {
  if (path_.empty()) return source_;
  return source_ + ": " + (path_[0] == '.' ? path_.substr(1) : path_);
}

Error JsonView::error(const std::string& expected) const {
  return Error({.op = where(), .expected = expected, .got = shortened(*value_)});
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!value_->is_object()) throw error("an object");
  const std::string name(key);
  const auto found = value_->find(name);
  if (found == value_->end()) return std::nullopt;
  return JsonView(&*found, *this, "." + name);
}

JsonView JsonView::operator[](std::string_view key) const {
  if (auto member = find(key)) return *std::move(member);
  throw Error({.op = where(),
               .message = "'" + std::string(key) + "' is missing",
               .fix = did_you_mean(key, keys()).empty()
                          ? ""
                          : "the nearest key is '" + nearest(key, keys()) + "'"});
}

std::vector<std::string> JsonView::keys() const {
  if (!value_->is_object()) throw error("an object");
  std::vector<std::string> names;
  for (const auto& member : value_->items()) names.push_back(member.key());
  return names;
}

void JsonView::require_only(std::initializer_list<std::string_view> known) const {
  const std::vector<std::string> choices(known.begin(), known.end());
  for (const auto& name : keys()) {
    if (std::find(choices.begin(), choices.end(), name) == choices.end()) {
      throw Error({.op = where(),
                   .message = "unknown key '" + name + "'",
                   .fix = did_you_mean(name, choices)});
    }
  }
}

size_t JsonView::size() const {
  if (!value_->is_array()) throw error("an array");
  return value_->size();
}

JsonView JsonView::operator[](size_t index) const {
  const size_t count = size();
  if (index >= count) {
    throw Error({.op = where(),
                 .expected = "more than " + std::to_string(index) + " elements",
                 .got = std::to_string(count)});
  }
  return JsonView(&(*value_)[index], *this, "[" + std::to_string(index) + "]");
}

int64_t JsonView::integer(int64_t min, int64_t max) const {
  std::string expected = "an integer";
  if (min > std::numeric_limits<int64_t>::min()) expected += " >= " + std::to_string(min);
  if (max < std::numeric_limits<int64_t>::max())
    expected += (expected.back() == 'r' ? " <= " : " and <= ") + std::to_string(max);
  const bool fits =
      value_->is_number_unsigned()
          ? value_->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
          : value_->is_number_integer();
  if (!fits || value_->get<int64_t>() < min || value_->get<int64_t>() > max) throw error(expected);
  return value_->get<int64_t>();
}

double JsonView::number(double min, double max) const {
  std::string expected = "a number";
  if (min > std::numeric_limits<double>::lowest()) expected += " >= " + format_double(min);
  if (max < std::numeric_limits<double>::max())
    expected += (expected.back() == 'r' ? " <= " : " and <= ") + format_double(max);
  if (!value_->is_number() || value_->get<double>() < min || value_->get<double>() > max)
    throw error(expected);
  return value_->get<double>();
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) throw error("true or false");
  return value_->get<bool>();
}

const std::string& JsonView::text() const {
  if (!value_->is_string()) throw error("a string");
  return value_->get_ref<const std::string&>();
}

}  // namespace keel
