// Variables that tell how far a job is were looked at only where something read them, and a step
// beyond the last one was taken.
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "keel/graph/runtime/accelerate.h"

#include "support/error_of.h"

namespace {

using Variables = std::map<std::string, std::string>;
using keel_test::contains;
using keel_test::error_of;

class Environment {
 public:
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  Variables variables_;
};

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a wrong number of a job is an error also where the caller goes before it") {
  using namespace keel;
  const auto mode = [](const char* text) { return parse_accelerate_train_mode(text, "mode"); };
  const AcceleratedTraining by_steps{.mode = mode("fast|step"),
                                     .tell = {.total_step = 9, .step_now = 0}};
  const AcceleratedTraining by_loss{.mode = mode("fast|loss"), .tell = {.final_loss = 1}};
  const std::pair<const char*, const char*> wrong[] = {
      {"TARGET_LOSS", "nan"}, {"TARGET_LOSS", "abc"}, {"LOSS_NOW", "abc"}, {"LOSS_NOW", "inf"},
      {"TOTAL_STEP", "abc"},  {"TOTAL_STEP", "0"},    {"STEP_NOW", "-3"},  {"STEP_NOW", "1.5"}};
  for (const auto& [name, value] : wrong) {
    const Environment environment(Variables{{name, value}});
    for (const AcceleratedTraining& training : {by_steps, by_loss}) {
      const std::string error = error_of([&] { with_environment(training); });
      CHECK(error.starts_with(std::string(name) + ": expected"));
    }
  }
}

TEST_CASE("a job is not beyond its last step") {
  using namespace keel;
  const AcceleratedTraining training{.mode = parse_accelerate_train_mode("fast|step", "mode")};
  {
    const Environment beyond(Variables{{"STEP_NOW", "51"}, {"TOTAL_STEP", "50"}});
    CHECK(contains(error_of([&] { with_environment(training); }),
                   "STEP_NOW: expected at most the 50 of TOTAL_STEP, got 51"));
  }
  const Environment at_end(Variables{{"STEP_NOW", "50"}, {"TOTAL_STEP", "50"}});
  const AcceleratedTraining told = with_environment(training);
  CHECK(told.tell.step_now == 50);
  CHECK(told.tell.total_step == 50);
}

TEST_SUITE_END();
