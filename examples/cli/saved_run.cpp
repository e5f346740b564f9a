#include "cli/saved_run.h"

#include <limits>
#include <string_view>
#include <utility>

namespace keel_cli {
namespace {

// What is wrong with a value is the file's fault, not an argument's.
template <class Parse>
auto from_file(const std::string& path, Parse parse) {
  try {
    return parse();
  } catch (const keel::Error& error) {
    throw keel::Error({.op = "--resume", .argument = path, .message = error.what()});
  }
}

}  // namespace

SavedRun::SavedRun(std::string path)
    : path_(std::move(path)), metadata_(keel::read_safetensors(path_).metadata) {
  for (const char* name : {"model", "optimizer", "lr", "batch", "seed", "data", "data_sha256",
                           "backend", "isa", "step", "cursor_position"}) {
    at(name);
  }
  // Files written before there was a choice.
  metadata_.emplace("precision", keel::kDefaultPrecision);
  integer("step", 0, std::numeric_limits<int64_t>::max());
}

int64_t SavedRun::step() const { return integer("step", 0, std::numeric_limits<int64_t>::max()); }

const std::string& SavedRun::at(const std::string& name) const {
  const auto it = metadata_.find(name);
  if (it != metadata_.end()) return it->second;
  throw keel::Error({.op = "--resume",
                     .argument = path_,
                     .message = "cannot be resumed: its metadata has no '" + name + "'",
                     .fix = "resume from a file that `keel train --save` of this version wrote"});
}

int64_t SavedRun::integer(const std::string& name, int64_t min, int64_t max) const {
  return from_file(path_, [&] { return keel::parse_integer(at(name), name, min, max); });
}

double SavedRun::number(const std::string& name, double min, double max) const {
  return from_file(path_, [&] { return keel::parse_number(at(name), name, min, max); });
}

std::string SavedRun::choice(const std::string& name,
                             const std::vector<std::string>& choices) const {
  return from_file(path_, [&] { return keel::parse_choice(at(name), name, choices); });
}

void SavedRun::require_same(const std::string& flag,
                            const std::optional<std::string>& given) const {
  if (!given || *given == at(flag)) return;
  throw keel::Error({.op = "--" + flag,
                     .expected = at(flag) + ", as " + path_ + " was trained with",
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

std::string data_sha256(const keel::LabelledImages& set) {
  keel::Sha256 hash;
  for (const keel::Tensor* tensor : {&set.images, &set.labels}) {
    hash.update(to_string(tensor->type()));
    hash.update(tensor->raw(), tensor->num_bytes());
  }
  return hash.finish();
}

}  // namespace keel_cli
