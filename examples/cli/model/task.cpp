#include "cli/model/task.h"

namespace keel_cli {

std::string TrainTask::picture(const keel::Tensor&) const { return ""; }

const std::vector<TaskKind>& task_kinds() {
  static const std::vector<TaskKind> kinds = [] {
    std::vector<TaskKind> all;
    for (const keel_examples::Model& model : keel_examples::models()) {
      all.push_back({.name = model.name,
                     .optimizer = model.optimizer,
                     .sgd_rate = model.sgd_rate,
                     .make = [&model](const std::string& data, const std::string& label) {
                       return make_classifier_task(model, data, label);
                     }});
    }
    all.push_back(
        {.name = "vae",
         .data = TaskData::kImages,
         .labelled = false,
         .optimizer = "adam",
         .rate = 0.001,
         .make = [](const std::string& data, const std::string&) { return make_vae_task(data); }});
    all.push_back({.name = "charlm",
                   .data = TaskData::kText,
                   .labelled = false,
                   .optimizer = "adam",
                   .rate = 0.003,
                   .batch = 32,
                   .make = [](const std::string& data, const std::string&) {
                     return make_charlm_task(data);
                   }});
    return all;
  }();
  return kinds;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskKind& kind : task_kinds()) names.push_back(kind.name);
  return names;
}

const TaskKind& find_task_kind(const std::string& name) {
  for (const TaskKind& kind : task_kinds()) {
    if (kind.name == name) return kind;
  }
  keel::parse_choice(name, "--model", task_names());  // throws
  return task_kinds().front();
}

}  // namespace keel_cli
