// A model of few steps for tests of what is made of trained ones.
#ifndef KEEL_TESTS_CLI_TRAINED_MODEL_H
#define KEEL_TESTS_CLI_TRAINED_MODEL_H

#include <string>

#include "cli/data_set.h"
#include "cli/tool.h"

namespace keel_test {

// The folder holds the data that it was trained on, and its weights.
struct TrainedModel : DataFolder {
  explicit TrainedModel(const std::string& model) : DataFolder(60, 20) {
    done({"train", "--model", model, "--data", path(), "--steps", "3", "--batch", "20", "--backend",
          "cpu", "--save", weights()});
  }
  std::string weights() const { return file("weights"); }
};

}  // namespace keel_test

#endif  // KEEL_TESTS_CLI_TRAINED_MODEL_H
