#include "scenarios/json_stream.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

// The bytes of the document, block by block.
class Feed {
 public:
  explicit Feed(const JsonStream& stream) : read_(stream.read), block_(std::size_t{1} << 18) {}

  bool more() { return at_ < size_ || refill(); }
  char current() const { return block_[at_]; }
  void advance() {
    line_ += block_[at_] == '\n' ? 1 : 0;
    ++at_;
  }
  std::int64_t line() const { return line_; }
  void token_ended() { token_start_ = total_; }

 private:
  bool refill() {
    if (total_ - token_start_ > kLongestToken) {
      throw InputError(
          "expected JSON, found a token of more than " + std::to_string(kLongestToken >> 20) + " MiB",
          "line " + std::to_string(line_));
    }
    size_ = read_(block_.data(), block_.size());
    at_ = 0;
    total_ += size_;
    return size_ > 0;
  }

  const std::function<std::size_t(char*, std::size_t)>& read_;
  std::vector<char> block_;
  std::size_t at_ = 0, size_ = 0, total_ = 0, token_start_ = 0;
  std::int64_t line_ = 1;
};

class FeedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit FeedIterator(Feed* feed) : feed_(feed) {}
  char operator*() const { return feed_->current(); }
  FeedIterator& operator++() {
    feed_->advance();
    return *this;
  }
  // Only ever compared with the end.
  friend bool operator==(const FeedIterator& a, const FeedIterator& b) { return a.ended() == b.ended(); }
  friend bool operator!=(const FeedIterator& a, const FeedIterator& b) { return !(a == b); }

 private:
  bool ended() const { return feed_ == nullptr || !feed_->more(); }
  Feed* feed_;
};

// Puts values together and hands each one out when it is whole.
class Assembler {
 public:
  Assembler(const JsonStream& stream, Feed& feed) : stream_(stream), feed_(feed) {}

  // What the library calls.
  bool null() { return scalar(Json()); }
  bool boolean(bool v) { return scalar(Json(v)); }
  bool number_integer(std::int64_t v) { return scalar(Json(v)); }
  bool number_unsigned(std::uint64_t v) {
    return v <= INT64_MAX ? scalar(Json(static_cast<std::int64_t>(v))) : scalar(Json(v));
  }
  bool number_float(double v, const std::string&) { return scalar(Json(v)); }
  bool string(std::string& v) { return scalar(Json(std::move(v))); }
  template <class Binary>
  bool binary(Binary&) {
    return true;
  }
  bool start_object(std::size_t) { return open(Json(Json::Object{})); }
  bool start_array(std::size_t) { return open(Json(Json::Array{})); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    feed_.token_ended();
    if (skipped_depth_ > 0) {
      return true;
    }
    if (outer_.size() == 1 && !in_value()) {
      member_ = name;
      skip_next_ = !stream_.wanted({}, name);
      return true;
    }
    skip_next_ = !stream_.wanted(member_, name);
    if (!skip_next_) {
      name_ = std::move(name);
    }
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception&) {
    end.trouble = feed_.more() ? "is not JSON from here on" : "breaks off in the middle of a value";
    return false;
  }

  JsonStreamEnd end;

 private:
  bool in_value() const { return !open_.empty(); }
  bool outer_array() const { return !outer_.empty() && outer_.back(); }

  // True while what comes is inside of something unwanted; `opens` and `closes` keep its depth.
  bool skipped(int change) {
    feed_.token_ended();
    if (skipped_depth_ > 0) {
      skipped_depth_ += change;
      return true;
    }
    if (skip_next_ && change >= 0) {
      skip_next_ = false;
      skipped_depth_ = change;
      return true;
    }
    return false;
  }

  Json& place(Json value) {
    if (++values_ > kMostStreamedValues) {
      throw InputError("expected values of at most " + std::to_string(kMostStreamedValues) +
                           " numbers and names, found a larger one",
                       "line " + std::to_string(feed_.line()));
    }
    if (auto* array = std::get_if<Json::Array>(&open_.back()->value)) {
      return array->emplace_back(std::move(value));
    }
    auto& object = std::get<Json::Object>(open_.back()->value);
    object.push_back({std::move(name_), std::move(value)});
    return object.back().value;
  }

  bool scalar(Json value) {
    if (skipped(0)) {
      return true;
    }
    if (in_value()) {
      place(std::move(value));
    } else {
      hand_out(value);
    }
    return true;
  }

  bool open(Json value) {
    if (skipped(1)) {
      check_depth(static_cast<std::size_t>(skipped_depth_));
      return true;
    }
    check_depth(outer_.size() + open_.size() + 1);
    const bool array = value.as<Json::Array>() != nullptr;
    // The document itself, and an array that is a member of it, are only passed through.
    if (!in_value() && (outer_.empty() || (outer_.size() == 1 && !outer_.back() && array))) {
      outer_.push_back(array);
      return true;
    }
    if (in_value()) {
      open_.push_back(&place(std::move(value)));
    } else {
      whole_ = std::move(value);
      open_.push_back(&whole_);
    }
    return true;
  }

  bool close() {
    if (skipped(-1)) {
      return true;
    }
    if (!in_value()) {
      outer_.pop_back();
      return true;
    }
    open_.pop_back();
    if (open_.empty()) {
      hand_out(whole_);
    }
    return true;
  }

  void hand_out(const Json& value) {
    ++end.values;
    values_ = 0;
    stream_.value(member_, value, feed_.line());
  }

  void check_depth(std::size_t depth) const {
    if (depth > kDeepest) {
      throw InputError("expected JSON nested at most " + std::to_string(kDeepest) + " deep, found it deeper",
                       "line " + std::to_string(feed_.line()));
    }
  }

  const JsonStream& stream_;
  Feed& feed_;
  std::vector<bool> outer_;  // the document, and the member that is an array: whether each is an array
  std::vector<Json*> open_;  // inside of whole_
  Json whole_;
  std::string member_, name_;
  std::size_t values_ = 0;
  int skipped_depth_ = 0;
  bool skip_next_ = false;
};

}  // namespace

JsonStreamEnd read_json_stream(const JsonStream& stream) {
  Feed feed(stream);
  Assembler assembler(stream, feed);
  const PlainLocale plain;  // the library asks for the decimal point
  nlohmann::json::sax_parse(FeedIterator(&feed), FeedIterator(nullptr), &assembler);
  assembler.end.line = feed.line();
  return std::move(assembler.end);
}

}  // namespace paceline
