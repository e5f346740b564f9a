#include "cli/model/saved_run.h"

#include <limits>
#include <utility>

#include "cli/base/flag_errors.h"
#include "cli/model/finite_states.h"

namespace keel_cli {
namespace {

constexpr int64_t kMostSteps = std::numeric_limits<int64_t>::max();

}  // namespace

SavedRun::SavedRun(std::string path) : path_(std::move(path)) {
  keel::Safetensors file = in_flag("--resume", [&] { return keel::read_safetensors(path_); });
  if (!file.has_checksums) {
    throw keel::Error({.op = "--resume",
                       .argument = path_,
                       .message = "cannot be resumed: it has no checksums, so nobody can tell "
                                  "whether it is as it was saved",
                       .fix = "resume from a file that `keel train --save` of this version wrote"});
  }
  metadata_ = std::move(file.metadata);
  for (const char* name :
       {"model", "optimizer", "batch", "seed", "data", "data_sha256", "backend", "isa", "step",
        "precision", "cursor_epoch", "cursor_position", "cursor_key"}) {
    at(name);
  }
  integer("step", 0, kMostSteps);
  non_finite_state_ = non_finite_state(file.tensors);
}

int64_t SavedRun::step() const { return integer("step", 0, kMostSteps); }

const std::string& SavedRun::at(const std::string& name) const {
  const auto it = metadata_.find(name);
  if (it != metadata_.end()) return it->second;
  throw keel::Error({.op = "--resume",
                     .argument = path_,
                     .message = "cannot be resumed: its metadata has no '" + name + "'",
                     .fix = "resume from a file that `keel train --save` of this version wrote"});
}

std::optional<std::string> SavedRun::find(const std::string& name) const {
  const auto it = metadata_.find(name);
  return it == metadata_.end() ? std::nullopt : std::optional(it->second);
}

int64_t SavedRun::integer(const std::string& name, int64_t min, int64_t max,
                          const std::optional<std::string>& missing) const {
  const std::string text = missing ? find(name).value_or(*missing) : at(name);
  return keel::parse_in_file("--resume: " + path_,
                             [&] { return keel::parse_integer(text, name, min, max); });
}

double SavedRun::number(const std::string& name, double min, double max) const {
  return keel::parse_in_file("--resume: " + path_,
                             [&] { return keel::parse_number(at(name), name, min, max); });
}

std::string SavedRun::choice(const std::string& name,
                             const std::vector<std::string>& choices) const {
  return keel::parse_in_file("--resume: " + path_,
                             [&] { return keel::parse_choice(at(name), name, choices); });
}

void SavedRun::require_same(const std::string& flag, const std::optional<std::string>& given,
                            const std::optional<std::string>& missing) const {
  const std::string saved = missing ? find(flag).value_or(*missing) : at(flag);
  if (!given || *given == saved) return;
  throw keel::Error({.op = "--" + flag,
                     .expected = saved + ", as " + path_ + " was trained with",
                     .got = *given,
                     .fix = "drop the flag, or train from the beginning"});
}

void SavedRun::require_same_data(const std::string& folder, const std::string& sha256) const {
  if (sha256 == at("data_sha256")) return;
  throw keel::Error({.op = "--data",
                     .argument = folder,
                     .expected = "the training set that " + path_ + " was trained on (" +
                                 at("data") + ", sha256 " + at("data_sha256").substr(0, 12) + ")",
                     .got = "another one (sha256 " + sha256.substr(0, 12) + ")",
                     .fix = "give the folder that holds it, or train from the beginning"});
}

void SavedRun::require_place(int64_t steps_per_epoch, int64_t batch) const {
  const int64_t epoch = integer("cursor_epoch", 0, kMostSteps);
  const int64_t position = integer("cursor_position", 0, kMostSteps);
  // The end of an epoch may be written as the beginning of the next.
  const bool fits = epoch <= step() / steps_per_epoch && position % batch == 0 &&
                    position / batch <= steps_per_epoch &&
                    epoch * steps_per_epoch + position / batch == step();
  if (fits) return;
  throw keel::Error(
      {.op = "--resume",
       .argument = path_ + ", cursor_epoch and cursor_position",
       .expected = "the place after " + std::to_string(step()) + " steps of " +
                   std::to_string(batch) + " images, " + std::to_string(steps_per_epoch) +
                   " an epoch",
       .got = "position " + std::to_string(position) + " in epoch " + std::to_string(epoch)});
}

void SavedRun::require_finite() const {
  if (!non_finite_state_) return;
  throw keel::Error({.op = "--resume",
                     .argument = path_,
                     .message = *non_finite_state_,
                     .fix = "resume from an older file, or add --allow-non-finite"});
}

std::string data_sha256(const keel::LabelledImages& set) {
  keel::Sha256 hash;
  for (const keel::Tensor* tensor : {&set.images, &set.labels}) {
    hash.update(to_string(tensor->type()));
    hash.update(tensor->raw(), tensor->num_bytes());
  }
  return hash.finish();
}

}  // namespace keel_cli
