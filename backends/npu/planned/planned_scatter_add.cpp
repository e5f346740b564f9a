// scatter_add as planned: cores share the columns, since rows that are named twice are added in
// order. Each takes its tiles of the columns through unified buffer: there each row that is named
// meets all that is added to it, one update behind the other, and is rounded once.
#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/backends/common/indices.h"
#include "keel/backends/common/row_accumulator.h"
#include "keel/backends/common/vector/saturation.h"
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/planned/core_run.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {
namespace {

// Numbers of a core's claims; what is not summed has two buffers.
enum ScatterAddClaims : size_t { kRow = 0, kUpdate = 2, kRowSums = 4 };

// A row that is named, and the updates that name it, in their order.
struct NamedRow {
  int64_t row = 0;
  std::vector<int64_t> updates;
};

class PlannedScatterAdd final : public CoreRun {
 public:
  PlannedScatterAdd(const PlannedRequest& request, TilePlan plan, int64_t columns)
      : CoreRun(request, std::move(plan)),
        type_(request.anchored.node().type()),
        indices_(request.anchored.node().input(1).type()),
        columns_(columns),
        tile_elements_(request.launch.split.work.tile_elements),
        saturates_behind_(request.saturates_behind) {}

 private:
  uint32_t run_blocks(Core& core, void* const* args,
                      std::vector<WrittenOnce>& written) const override {
    const std::vector<NamedRow> rows = named_rows(args[1]);
    // The elements of the rows that are named, in the order of their names.
    written.emplace_back("output 0", static_cast<int64_t>(rows.size()) * columns_);
    for (size_t block = 0; block < plan().cores.size(); ++block) {
      core.begin_block(static_cast<int64_t>(block), claims());
      const std::vector<PlannedTile>& tiles = plan().cores[block];
      for (size_t t = 0; t < tiles.size(); ++t) {
        core.begin_tile(static_cast<int64_t>(t));
        for (size_t i = 0; i < rows.size(); ++i) {
          visit_dtype(type_.dtype, [&]<class T>() { add_up<T>(core, args, rows[i], tiles[t], i); });
          written[0].write(core, static_cast<int64_t>(i) * columns_ + tiles[t].row, tiles[t].rows);
        }
      }
    }
    if (!saturates_behind_) return 0;
    return vector::stop_at_largest(static_cast<uint16_t*>(args[3]), type_.shape.num_elements());
  }

  std::vector<NamedRow> named_rows(const void* indices) const {
    std::vector<NamedRow> rows;
    std::unordered_map<int64_t, size_t> place;
    const int64_t count = indices_.shape.num_elements();
    with_indices(indices_.dtype, indices, [&](const auto* names) {
      check_indices(names, count, type_.shape[0], op());
      for (int64_t i = 0; i < count; ++i) {
        const auto row = static_cast<int64_t>(names[i]);
        const auto [it, is_new] = place.emplace(row, rows.size());
        if (is_new) rows.push_back({row, {}});
        rows[it->second].updates.push_back(i);
      }
    });
    return rows;
  }

  std::vector<Claim> claims() const {
    std::vector<Claim> claims;
    const auto tile = static_cast<size_t>(std::min(tile_elements_, columns_));
    for (const char* what : {"a row", "an update"}) {
      for (int b = 0; b < 2; ++b) {
        claims.push_back({CoreBuffer::kUnified, tile * size_of(type_.dtype),
                          std::string(what) + ", buffer " + std::to_string(b)});
      }
    }
    claims.push_back({CoreBuffer::kUnified, tile * sizeof(double), "sums"});
    return claims;
  }

  // A tile's columns of row `number` of those that are named; an update comes while the one ahead
  // of it is added.
  template <class T>
  void add_up(Core& core, void* const* args, const NamedRow& named, const PlannedTile& tile,
              size_t number) const {
    const auto bytes = static_cast<size_t>(tile.rows) * sizeof(T);
    T* out = static_cast<T*>(args[3]) + named.row * columns_ + tile.row;
    T* row = reinterpret_cast<T*>(core.refill(kRow + number % 2, bytes));
    std::memcpy(row, out, bytes);
    const auto update = [&](size_t i) {
      return reinterpret_cast<const T*>(core.at(kUpdate + i % 2));
    };
    const auto bring = [&](size_t i) {
      std::memcpy(core.refill(kUpdate + i % 2, bytes),
                  static_cast<const T*>(args[2]) + named.updates[i] * columns_ + tile.row, bytes);
    };
    using Sum = typename RowAccumulator<T>::Sum;
    RowAccumulator<T> sums(
        reinterpret_cast<Sum*>(core.refill(kRowSums, static_cast<size_t>(tile.rows) * sizeof(Sum))),
        tile.rows);
    bring(0);
    if (named.updates.size() == 1) {
      // As the kernel adds a single one: of two NaNs, in double another is kept than in f32.
      RowAccumulator<T>::add_one(update(0), row, tile.rows);
    } else {
      sums.begin(row);
      for (size_t i = 0; i < named.updates.size(); ++i) {
        if (i + 1 < named.updates.size()) bring(i + 1);
        sums.add(update(i));
      }
      sums.round(row);
    }
    core.end_tile();
    std::memcpy(out, row, bytes);
  }

  Type type_, indices_;
  int64_t columns_;  // elements of a row
  int64_t tile_elements_;
  bool saturates_behind_;
};

// Elements of a row of what is added to.
int64_t columns_of_row(const Node& node) {
  const Shape& shape = node.type().shape;
  int64_t columns = 1;
  for (size_t i = 1; i < shape.rank(); ++i) columns *= shape[i];
  return columns;
}

// Over the columns: a unit of work is a tile's columns of all updates.
TilePlan tiles_of_scatter_add(const PlannedRequest& request) {
  VectorWork work = request.launch.split.work;
  work.elements_per_unit = work.tile_elements;
  return plan_elements(work, request.launch.price.block_dim,
                       columns_of_row(request.anchored.node()));
}

PlannedLaunch make_scatter_add_run(const PlannedRequest& request, TilePlan plan) {
  const int64_t columns = columns_of_row(request.anchored.node());
  return {std::make_shared<PlannedScatterAdd>(request, std::move(plan), columns), ""};
}

}  // namespace

const PlannedEntry kPlannedScatterAdd{.tiles = tiles_of_scatter_add, .run = make_scatter_add_run};

}  // namespace keel::npu
