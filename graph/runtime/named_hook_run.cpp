#include "keel/graph/runtime/named_hook_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <typeinfo>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "keel/core/base/json.h"
#include "keel/core/base/log.h"
#include "keel/core/group/group.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/runtime/seconds_since.h"
#include "keel/graph/runtime/summary_file.h"
#include "keel/graph/runtime/train_options_check.h"

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;
using Row = std::span<const double>;
// Handles a step's fetches for one hook.
using StepReader = std::function<LoopControl(int64_t step, Row values)>;

// Errors of what it calls name the line of the fit. What a user throws stays what it is.
template <class Call>
void at_line_of_fit(CallSite site, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;
    throw error.with_site(site);
  }
}

// Fetches of a step by their names and places in its row.
struct Columns {
  std::vector<std::string> names;
  std::vector<size_t> places;

  std::vector<double> of(Row row) const {
    std::vector<double> values;
    for (const size_t place : places) values.push_back(row[place]);
    return values;
  }
};

// The options of one fit while its hooks are added to them.
class NamedHookRun {
 public:
  NamedHookRun(TrainOptions options, const Values& metrics, int64_t start,
               std::vector<std::function<void()>>& ends, CallSite site)
      : options_(std::move(options)), metrics_(metrics), start_(start), ends_(ends), site_(site) {}

  TrainOptions run() {
    const std::vector<NamedHook> hooks = std::exchange(options_.hooks, {});
    at_line_of_fit(site_, [&] {
      for (const NamedHook& hook : hooks) std::visit([this](const auto& h) { add(h); }, hook);
    });
    if (readers_.empty()) return std::move(options_);
    // The loop copies its callback for each launch.
    auto readers = std::make_shared<const std::vector<StepReader>>(std::move(readers_));
    options_.on_step = [own = options_.on_step, readers = std::move(readers), site = site_](
                           int64_t step, Row values, uint32_t status) {
      LoopControl control = own(step, values, status);
      at_line_of_fit(site, [&] {
        for (const StepReader& reader : *readers)
          if (reader(step, values) == LoopControl::kStop) control = LoopControl::kStop;
      });
      return control;
    };
    return std::move(options_);
  }

 private:
  void add(const CheckpointSaverHook& hook) {
    if (options_.checkpoint) {
      complain("CheckpointSaverHook", "one that saves checkpoints",
               "TrainOptions::checkpoint or another such hook beside it");
    }
    if (hook.every_n_steps == 0 && hook.every_seconds == 0)
      complain("CheckpointSaverHook", "every_n_steps or every_seconds", "neither");
    options_.checkpoint = CheckpointOptions{.folder = hook.folder,
                                            .every_n_steps = hook.every_n_steps,
                                            .every_seconds = hook.every_seconds,
                                            .keep = hook.keep,
                                            .waits_for_writer = true};
  }

  void add(const LoggingHook& hook) {
    const bool by_steps = hook.every_n_steps > 0, by_time = hook.every_seconds > 0;
    const bool wrong = hook.every_n_steps < 0 || !std::isfinite(hook.every_seconds) ||
                       hook.every_seconds < 0 || by_steps == by_time;
    if (wrong) {
      complain("LoggingHook", "every_n_steps or every_seconds, more than 0",
               fmt::format("{} and {}", hook.every_n_steps, hook.every_seconds));
    }
    auto last = std::make_shared<std::optional<Clock::time_point>>();
    readers_.push_back(
        [hook, last, columns = columns("LoggingHook", hook.values)](int64_t step, Row row) {
          const bool due = hook.every_n_steps > 0
                               ? step % hook.every_n_steps == 0
                               : !*last || seconds_since(**last) >= hook.every_seconds;
          if (!due) return LoopControl::kContinue;
          *last = Clock::now();
          std::string line = fmt::format("step {}:", step);
          for (size_t i = 0; i < columns.places.size(); ++i)
            line += fmt::format("{} {} {:.6g}", i == 0 ? "" : ",", columns.names[i],
                                row[columns.places[i]]);
          tell(hook.write, line);
          return LoopControl::kContinue;
        });
  }

  void add(const StepCounterHook& hook) {
    require_at_least_1("StepCounterHook::every_n_steps", hook.every_n_steps);
    struct Last {
      int64_t step;
      Clock::time_point when;
    };
    auto last = std::make_shared<Last>(Last{start_, Clock::now()});
    readers_.push_back([hook, last](int64_t step, Row) {
      if (step % hook.every_n_steps != 0) return LoopControl::kContinue;
      const double seconds = seconds_since(last->when);
      tell(hook.write,
           fmt::format("step {}: {:.1f} steps/s", step,
                       static_cast<double>(step - last->step) / std::max(seconds, 1e-9)));
      *last = {step, Clock::now()};
      return LoopControl::kContinue;
    });
  }

  void add(const StopAtStepHook& hook) {
    if (hook.last_step < 0)
      complain("StopAtStepHook::last_step", "at least 0", std::to_string(hook.last_step));
    options_.last_step = std::min(hook.last_step, options_.last_step.value_or(hook.last_step));
  }

  void add(const NanGuardHook& hook) {
    readers_.push_back([hook, columns = columns("NanGuardHook", hook.values)](int64_t step,
                                                                              Row row) {
      for (size_t i = 0; i < columns.places.size(); ++i) {
        const double value = row[columns.places[i]];
        if (std::isfinite(value)) continue;
        const std::string what = fmt::format("{} is {} in step {}", columns.names[i], value, step);
        if (hook.fail) {
          throw Error({.op = "NanGuardHook",
                       .message = what,
                       .fix = "TrainOptions::check_numerics names the op that made it"});
        }
        log_warn("NanGuardHook: " + what + ": the training ends");
        return LoopControl::kStop;
      }
      return LoopControl::kContinue;
    });
  }

  void add(const SummaryHook& hook) {
    require_at_least_1("SummaryHook::every_n_steps", hook.every_n_steps);
    Columns own = columns("SummaryHook", hook.values, /*taken=*/{"step"});
    const bool twice =
        std::find(summary_paths_.begin(), summary_paths_.end(), hook.path) != summary_paths_.end();
    if (twice) complain("SummaryHook::path", "a file of its own", "'" + hook.path + "' twice");
    summary_paths_.push_back(hook.path);
    SummaryFile::require_form(hook.path);
    // Ranks have the same numbers, and the same options: what is wrong with these all have told.
    if (options_.group != nullptr && options_.group->rank() != 0) return;
    // The files are there by now, so that links and other spellings of their paths are seen.
    for (const std::string& other : summaries_) {
      std::error_code unknown;
      if (!std::filesystem::equivalent(hook.path, other, unknown)) continue;
      complain("SummaryHook::path", "a file of its own",
               "'" + hook.path + "', which is '" + other + "'");
    }
    auto file = std::make_shared<SummaryFile>(hook.path, own.names, start_);
    summaries_.push_back(hook.path);
    ends_.push_back([file, site = site_] { at_line_of_fit(site, [&] { file->finish(); }); });
    readers_.push_back(
        [every = hook.every_n_steps, own = std::move(own), file](int64_t step, Row row) {
          if (step % every == 0) file->add(step, own.of(row));
          return LoopControl::kContinue;
        });
  }

  // `taken`: names that are none of theirs.
  Columns columns(const char* hook, const Values& asked,
                  std::vector<std::string> taken = {}) const {
    const Values& values = asked.empty() ? metrics_ : asked;
    if (values.empty()) complain(hook, "a step that fetches numbers", "one that fetches none");
    Columns result;
    for (const Value& value : values) {
      const auto at = std::find(metrics_.begin(), metrics_.end(), value);
      if (at == metrics_.end())
        complain(std::string(hook) + "::values", "fetches of rank 0", described(value));
      result.places.push_back(static_cast<size_t>(at - metrics_.begin()));
      result.names.push_back(new_name(value, taken));
      taken.push_back(result.names.back());
    }
    return result;
  }

  // The node's name, with a number behind it where several have it.
  static std::string new_name(const Value& value, const std::vector<std::string>& taken) {
    const std::string name = full_name(value.node());
    std::string result = name;
    for (int number = 2; std::find(taken.begin(), taken.end(), result) != taken.end(); ++number)
      result = fmt::format("{}_{}", name, number);
    return result;
  }

  static void tell(const WriteLine& write, const std::string& line) {
    if (write)
      write(line);
    else
      log_info(line);
  }

  void require_at_least_1(const char* argument, int64_t value) const {
    if (value < 1) complain(argument, "at least 1", std::to_string(value));
  }

  [[noreturn]] void complain(const std::string& argument, const std::string& expected,
                             const std::string& got) const {
    complain_of_fit(argument, expected, got, site_);
  }

  TrainOptions options_;
  const Values& metrics_;
  const int64_t start_;
  std::vector<std::function<void()>>& ends_;
  const CallSite site_;
  std::vector<StepReader> readers_;
  std::vector<std::string> summary_paths_;  // of all hooks
  std::vector<std::string> summaries_;      // of those whose files this rank writes
};

}  // namespace

TrainOptions with_named_hooks(TrainOptions options, const Values& metrics, int64_t start,
                              std::vector<std::function<void()>>& ends, CallSite site) {
  return NamedHookRun(std::move(options), metrics, start, ends, site).run();
}

}  // namespace keel
