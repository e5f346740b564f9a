#include "cli/model/task.h"

#include <utility>

namespace keel_cli {
namespace {

TaskKind kind_of(std::shared_ptr<const ChosenModel> chosen) {
  constexpr int64_t kUsualBatch = 100;
  TaskKind kind{.name = chosen->model.name,
                .optimizer = chosen->model.optimizer,
                .sgd_rate = chosen->model.sgd_rate,
                .adam_rate = chosen->model.adam_rate,
                .schedule = chosen->model.schedule,
                .batch = chosen->batch.value_or(kUsualBatch),
                .model = chosen};
  kind.make = [chosen = std::move(chosen)](const std::string& data, const std::string& label) {
    return make_classifier_task(chosen, data, label);
  };
  return kind;
}

}  // namespace

std::string TrainTask::picture(const keel::Tensor&) const { return ""; }

const std::map<std::string, keel::Tensor>& TrainTask::weights() const {
  static const std::map<std::string, keel::Tensor> none;
  return none;
}

const std::vector<TaskKind>& task_kinds() {
  static const std::vector<TaskKind> kinds = [] {
    std::vector<TaskKind> all;
    for (const keel_examples::Model& model : keel_examples::models())
      all.push_back(kind_of(choose_model(model.name)));
    all.push_back(
        {.name = "vae",
         .data = TaskData::kImages,
         .labelled = false,
         .optimizer = "adam",
         .sgd_rate = 0.001,
         .make = [](const std::string& data, const std::string&) { return make_vae_task(data); }});
    all.push_back({.name = "charlm",
                   .data = TaskData::kText,
                   .labelled = false,
                   .optimizer = "adam",
                   .sgd_rate = 0.3,
                   .adam_rate = 0.003,
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

std::shared_ptr<const TaskKind> find_task_kind(const std::string& name) {
  if (is_model_file(name)) return std::make_shared<TaskKind>(kind_of(choose_model(name)));
  for (const TaskKind& kind : task_kinds()) {
    if (kind.name == name) return std::make_shared<TaskKind>(kind);
  }
  std::vector<std::string> choices = task_names();
  choices.insert(choices.end(), {"FILE.onnx", "FILE.pb", "FILE.keel"});
  keel::parse_choice(name, "--model", choices);  // throws
  return nullptr;
}

}  // namespace keel_cli
