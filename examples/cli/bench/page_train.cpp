#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/core.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/bench/page.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

using keel::Json;

std::string text(const Json& row, const char* key) {
  return row[key].is_string() ? row[key].get<std::string>() : row[key].dump();
}

// The numbers of threads in the suite, which have four shapes in turn.
using ThreadCounts = std::set<int64_t>;

int64_t threads_of(const Json& row) { return row.value("threads", int64_t{1}); }

// Colour: the backend, other ones for its other precisions. Shape: the place of the threads among
// all numbers of them.
Look look_of(const Json& row, const ThreadCounts& counts) {
  static const std::vector<std::string> names = keel::precision_names();
  constexpr int kOthers[] = {5, 4, 6, 8, 7};
  const int backend = colour_of_backend(row["backend"]);
  const auto mode = std::find(names.begin(), names.end(), row["precision"]) - names.begin();
  const auto place = std::distance(counts.begin(), counts.lower_bound(threads_of(row)));
  const int shape = static_cast<int>(place % 4);
  return {mode == 0 ? backend : kOthers[(mode - 1 + 2L * (backend - 1)) % 5], shape};
}

// Names a row by the keys whose values differ within the table.
std::string label_of(const Json& row, const std::vector<const char*>& keys) {
  std::string label = row["backend"];
  for (const char* key : keys) {
    const std::string value = text(row, key);
    const std::string name = key;
    label += ", " + (name == "threads"     ? value + (value == "1" ? " thread" : " threads")
                     : name == "precision" ? value
                     : name == "loop_size" ? "loop size " + value
                                           : name + " " + value);
  }
  return label;
}

std::vector<Json> of_model(const Json& table, const std::string& model) {
  std::vector<Json> rows;
  for (const Json& row : table) {
    if (row["model"] == model) rows.push_back(row);
  }
  return rows;
}

size_t distinct(const std::vector<Json>& rows, const char* key) {
  std::set<std::string> values;
  for (const Json& row : rows) values.insert(row[key].dump());
  return values.size();
}

// The series of rows over `along`, one for each combination of the other keys.
std::vector<Series> series_over(const std::vector<Json>& rows, const ThreadCounts& counts,
                                const char* along, const std::vector<const char*>& others,
                                const std::function<Mark(const Json&)>& mark) {
  std::vector<Series> all;
  for (const Json& row : rows) {
    Mark m = mark(row);
    m.x = row[along].get<double>();
    series_named(all, label_of(row, others), look_of(row, counts)).marks.push_back(m);
  }
  return all;
}

// A number that a table of the suite gives for a row, and how it is shown.
struct Measure {
  const char* key;
  const char* spread;  // its key; "" where there is none
  std::string title, caption, axis;
  bool log = false;
};
const Measure kThroughput = {"images_per_second",
                             "step_spread",
                             "throughput",
                             "Images a second of wall time; shuffle, feeding and normalisation "
                             "included.",
                             "images a second (wall time)",
                             true};
const Measure kStep = {"step_us", "step_spread", "wall time of a step",
                       "Medians of rounds in turns; whiskers are half the distance between the "
                       "quartiles.",
                       "wall time of a step, us"};
const Measure kSpeedUp = {"speed_up", "speed_up_spread", "speed-up by threads",
                          "How many times as fast as with one thread: the median of the rounds.",
                          "times as fast as one thread"};
const Measure kMemory = {"peak_rss_mib", "", "memory",
                         "Most memory of a keel train in a process of its own, data included.",
                         "peak resident memory, MiB"};
Measure modelled(const Json& json) {
  return {"step_device_us", "", "modelled device time of a step",
          "What the modelled " + json.value("npu_preset", std::string("NPU")) +
              " would take: device clock, not to be compared with wall time.",
          "device time of a step, us"};
}

constexpr const char* kNames[] = {"backend", "precision", "threads", "batch", "loop_size"};

// A table of one model's rows.
class TrainTable {
 public:
  TrainTable(const std::string& model, const ThreadCounts& counts, std::string id, Measure measure,
             std::vector<Json> rows)
      : model_(model),
        counts_(counts),
        id_(std::move(id)),
        measure_(std::move(measure)),
        rows_(std::move(rows)) {}

  bool empty() const { return rows_.empty(); }
  bool varies(const char* key) const { return !empty() && distinct(rows_, key) > 1; }

  // A line over `along`, one for each combination of what else differs.
  Figure lines(const char* along, const char* axis) const {
    Figure figure = begin();
    const std::string by = std::string(along) == "batch" ? "batch" : "loop size";
    figure.title += " by " + by;
    const auto others = telling(along);
    const auto series = series_over(rows_, counts_, along, others, [&](const Json& row) {
      return Mark{0, row[measure_.key], spread_of(row)};
    });
    figure.plots.push_back(draw(LinePlot{id_ + "-" + along + "-" + model_,
                                         figure.title,
                                         {axis, true},
                                         {measure_.axis, measure_.log},
                                         series}));
    return figure;
  }

  // A bar for each row.
  Figure bars() const {
    Figure figure = begin();
    const auto keys = telling("");
    BarPlot plot{id_ + "-" + model_, figure.title, measure_.axis, {}, {{}}};
    for (const Json& row : rows_) {
      plot.categories.push_back(label_of(row, keys));
      plot.layers[0].values.push_back(row[measure_.key]);
      plot.spreads.push_back(spread_of(row));
      plot.colours.push_back(look_of(row, counts_).colour);
    }
    figure.plots.push_back(draw(plot));
    return figure;
  }

  // Lines over the batch where it varies.
  Figure by_batch() const {
    return varies("batch") ? lines("batch", "images a step (batch)") : bars();
  }

 private:
  double spread_of(const Json& row) const {
    return *measure_.spread == 0 ? 0 : row[measure_.spread].get<double>();
  }

  // The keys beside backend and `along` whose values differ.
  std::vector<const char*> telling(const std::string& along) const {
    std::vector<const char*> keys;
    for (const char* key : kNames) {
      const bool known = rows_.front().contains(key) && key != along;
      if (known && std::string(key) != "backend" && distinct(rows_, key) > 1) keys.push_back(key);
    }
    return keys;
  }

  // Title, caption and table.
  Figure begin() const {
    Figure figure{model_ + ": " + measure_.title, measure_.caption, {}, {}, {}};
    for (const char* key : kNames) {
      if (rows_.front().contains(key)) figure.head.push_back(key);
    }
    figure.head.push_back(measure_.axis);
    if (*measure_.spread != 0) figure.head.push_back("+- %");
    for (const Json& row : rows_) {
      std::vector<std::string> cells;
      for (const char* key : kNames) {
        if (row.contains(key)) cells.push_back(text(row, key));
      }
      const double value = row[measure_.key];
      cells.push_back(fmt::format("{:.{}f}", value, value >= 1000 ? 0 : 2));
      if (*measure_.spread != 0) cells.push_back(fmt::format("{:.1f}", spread_of(row) * 100));
      figure.rows.push_back(std::move(cells));
    }
    return figure;
  }

  std::string model_;
  ThreadCounts counts_;
  std::string id_;
  Measure measure_;
  std::vector<Json> rows_;
};

std::vector<Json> where(std::vector<Json> rows, const char* key, int64_t value) {
  std::erase_if(rows, [&](const Json& row) { return row[key] != value; });
  return rows;
}

// The batch that stands for the model where batches are not what is shown: its usual one, or else
// that with most loop sizes; and the largest of its loop sizes.
std::pair<int64_t, int64_t> usual(const std::vector<Json>& rows, const std::string& model) {
  std::map<int64_t, std::set<int64_t>> sizes;
  for (const Json& row : rows) sizes[row["batch"]].insert(row["loop_size"].get<int64_t>());
  auto chosen = sizes.find(usual_batch(keel_examples::find_model(model)));
  if (chosen == sizes.end()) {
    chosen = std::max_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.size(), a.first) < std::pair(b.second.size(), b.first);
    });
  }
  return {chosen->first, *chosen->second.rbegin()};
}

void add_figures(const Json& json, const std::string& model, const ThreadCounts& counts,
                 std::vector<Figure>& figures) {
  const auto table = [&](const char* id, const Measure& measure, std::vector<Json> rows) {
    return TrainTable(model, counts, id, measure, std::move(rows));
  };
  const std::vector<Json> rows = of_model(json["rows"], model);
  const auto [batch, size] = usual(rows, model);
  const auto at_batch = where(rows, "batch", batch), at_size = where(rows, "loop_size", size);
  const TrainTable loops = table("train", kThroughput, at_batch);
  const TrainTable batches = table("train", kThroughput, at_size);
  if (loops.varies("loop_size")) figures.push_back(loops.lines("loop_size", "steps in a launch"));
  if (batches.varies("batch")) figures.push_back(batches.by_batch());
  figures.push_back(table("train-steps", kStep, where(at_batch, "loop_size", size)).bars());
  figures.back().caption += fmt::format(" Batch {}, loop size {}.", batch, size);
  const TrainTable speed_ups = table("train-speed-up", kSpeedUp,
                                     where(of_model(json["speed_ups"], model), "loop_size", size));
  if (!speed_ups.empty()) figures.push_back(speed_ups.by_batch());
  figures.push_back(table("train-memory", kMemory, of_model(json["processes"], model)).by_batch());
  const auto device = of_model(json["modelled"], model);
  if (device.empty()) return;
  const TrainTable device_loops =
      table("train-device", modelled(json), where(device, "batch", batch));
  figures.push_back(device_loops.varies("loop_size")
                        ? device_loops.lines("loop_size", "steps in a launch")
                        : device_loops.bars());
}

}  // namespace

Section train_section(const Json& json) {
  Section section{"Training",
                  fmt::format("{}; medians of {} rounds, contestants in turns.", text(json, "data"),
                              json["rounds"].get<int64_t>()),
                  {}};
  std::vector<std::string> models;
  ThreadCounts counts;
  for (const Json& row : json["rows"]) {
    counts.insert(threads_of(row));
    if (std::find(models.begin(), models.end(), row["model"]) == models.end())
      models.push_back(row["model"]);
  }
  for (const std::string& model : models) add_figures(json, model, counts, section.figures);
  return section;
}

}  // namespace keel_cli
