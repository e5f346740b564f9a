// SavedRun: a file of `keel train --save` as `--resume` sees it: what was trained, on what, and how
// far. The values are the flags of that run; the training goes on with them. Plain value.
#ifndef KEEL_EXAMPLES_CLI_MODEL_SAVED_RUN_H
#define KEEL_EXAMPLES_CLI_MODEL_SAVED_RUN_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <keel/keel.h>

namespace keel_cli {

class SavedRun {
 public:
  // Throws keel::Error for a file that is missing, damaged, without checksums, or not from
  // `keel train`.
  explicit SavedRun(std::string path);

  const std::string& path() const noexcept { return path_; }
  int64_t step() const;
  // The run's value of a flag ("batch"), or of "data_sha256", "backend", "isa".
  const std::string& at(const std::string& name) const;
  // The same of what not every run has, and files of older versions may lack.
  std::optional<std::string> find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  // The same as a number, `missing` where the file may lack it; throws keel::Error naming the file
  // where it is none.
  int64_t integer(const std::string& name, int64_t min, int64_t max,
                  const std::optional<std::string>& missing = {}) const;
  double number(const std::string& name, double min, double max) const;
  std::string choice(const std::string& name, const std::vector<std::string>& choices) const;
  // Throws keel::Error naming both where a flag that was given contradicts the file.
  void require_same(const std::string& flag, const std::optional<std::string>& given,
                    const std::optional<std::string>& missing = {}) const;
  // The same for the training data.
  void require_same_data(const std::string& folder, const std::string& sha256) const;
  // Throws keel::Error where the place in the data is not the one after step() steps.
  void require_place(int64_t steps_per_epoch, int64_t batch) const;
  // Throws keel::Error naming the first state that holds NaN or an infinity.
  void require_finite() const;

 private:
  std::string path_;
  std::map<std::string, std::string> metadata_;
  std::optional<std::string> non_finite_state_;
};

// SHA-256 over the images and labels of a set: what tells two sets apart.
std::string data_sha256(const keel::LabelledImages& set);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_SAVED_RUN_H
