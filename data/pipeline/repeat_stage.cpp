// Repeat: several passes as one.
#include <algorithm>
#include <limits>

#include "keel/core/base/checked.h"
#include "keel/core/base/random.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

constexpr uint64_t kRepeatKey = 0x72657065;

class RepeatStage final : public DerivedStage {
 public:
  RepeatStage(StagePtr from, std::optional<int64_t> times)
      : DerivedStage(std::move(from)), times_(times) {}

  const std::optional<int64_t>& times() const noexcept { return times_; }
  // The passes of all outer passes are numbered through, so that no two of them shuffle alike.
  // Where an outer pass has no known number of them, or the numbers would not fit, each outer pass
  // but the first one begins at a number drawn from all of 64 bits, far from those of the others.
  uint64_t first_round(uint64_t round) const {
    if (round == 0) return 0;
    const auto times = static_cast<uint64_t>(times_.value_or(0));
    const bool numbered = times_ && times <= std::numeric_limits<uint64_t>::max() / (round + 1);
    return numbered ? round * times : fold_key(kRepeatKey, round);
  }

  StagePtr on(StagePtr from) const override { return make_repeat_stage(std::move(from), times_); }
  std::optional<int64_t> size() const override {
    const auto once = from()->size();
    if (once == 0 || times_ == 0) return 0;
    if (!once || !times_) return std::nullopt;
    return checked_mul(*once, *times_, "repeat");
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override;
  bool endless() const override { return !times_ || (*times_ > 0 && from()->endless()); }
  uint64_t order_key(uint64_t round) const override {
    return from()->order_key(first_round(round));
  }

 private:
  std::optional<int64_t> times_;
};

class RepeatReader final : public Reader {
 public:
  RepeatReader(const RepeatStage& stage, const DataPass& pass)
      : stage_(stage),
        pass_(pass),
        rest_(stage.times().value_or(std::numeric_limits<int64_t>::max())) {
    pass_.round = stage.first_round(pass.round);
  }
  int64_t read(int64_t count, const FieldAddresses& out) override {
    return walk(count, [&](int64_t done, int64_t part) {
      return current_->read(part, out.advanced(stage_.layout(), done));
    });
  }
  int64_t skip(int64_t count) override {
    const int64_t whole = skip_whole_passes(count);
    return whole + walk(count - whole, [&](int64_t, int64_t part) { return current_->skip(part); });
  }

 private:
  int64_t skip_whole_passes(int64_t count) {
    const auto once = stage_.from()->size();
    if (!once || *once == 0 || current_) return 0;
    const int64_t passes = std::min(count / *once, rest_);
    pass_.round += static_cast<uint64_t>(passes);
    rest_ -= passes;
    return passes * *once;
  }

  template <class Pass>
  int64_t walk(int64_t count, Pass pass) {
    int64_t done = 0;
    while (done < count && !pass_.stopped() && rest_ > 0) {
      if (!current_) {
        current_ = stage_.from()->open(pass_);
        in_pass_ = 0;
      }
      const int64_t got = pass(done, count - done);
      done += got;
      in_pass_ += got;
      if (done == count || pass_.stopped()) break;
      const bool last = in_pass_ == 0 && ends_with_empty_pass(*stage_.from(), !stage_.times());
      current_.reset();
      rest_ = last ? 0 : rest_ - 1;
      ++pass_.round;
    }
    return done;
  }

  const RepeatStage& stage_;
  DataPass pass_;
  int64_t rest_;  // passes left, the current one included
  int64_t in_pass_ = 0;
  std::unique_ptr<Reader> current_;
};

std::unique_ptr<Reader> RepeatStage::open(const DataPass& pass) const {
  return std::make_unique<RepeatReader>(*this, pass);
}

}  // namespace

StagePtr make_repeat_stage(StagePtr from, std::optional<int64_t> times) {
  const int64_t once = from->size().value_or(0);
  const int64_t most = std::numeric_limits<int64_t>::max() / std::max<int64_t>(once, 1);
  if (times && *times > most) {
    throw Error({.op = "repeat",
                 .argument = "times",
                 .expected = "at most " + std::to_string(most) + " passes of " +
                             std::to_string(once) + " elements",
                 .got = std::to_string(*times),
                 .fix = "leave it out for passes without end",
                 .kind = ErrorKind::kInvalidArgument});
  }
  return std::make_shared<RepeatStage>(std::move(from), times);
}

bool ends_with_empty_pass(const Stage& once, bool endless) {
  if (endless) throw Error({.op = "repeat", .message = "there are no items to repeat without end"});
  return once.size() == 0 || once.same_items();
}

Repetition outermost_repetition(const StagePtr& stage) {
  if (const auto* repeat = dynamic_cast<const RepeatStage*>(stage.get()))
    return {repeat->from(), repeat->times()};
  return {stage, 1};
}

}  // namespace keel
