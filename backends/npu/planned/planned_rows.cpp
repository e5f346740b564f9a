#include "keel/backends/npu/planned/planned_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "keel/backends/common/origin.h"
#include "keel/backends/common/vector/saturation.h"

namespace keel::npu {
namespace {

class PlannedRows final : public CoreRun {
 public:
  PlannedRows(CoreLaunch launch, RowLayout rows, RowInstructions instructions,
              bool saturates_behind)
      : CoreRun(std::move(launch)),
        rows_(std::move(rows)),
        instructions_(std::move(instructions)),
        saturates_behind_(saturates_behind),
        most_rows_(most_rows()),
        buffers_(most_rows_ * rows_.bytes_on_core(2) <= preset().ub_bytes ? 2 : 1) {}

 private:
  uint32_t run_blocks(Core& core, void* const* args,
                      std::vector<WrittenOnce>& written) const override {
    if (instructions_.check) instructions_.check(args);
    Walk walk{core, args, written, 0};
    for (size_t i = rows_.inputs; i < rows_.bytes.size(); ++i) {
      written.emplace_back("output " + std::to_string(i - rows_.inputs),
                           rows_.count * rows_.elements[i]);
    }
    for (size_t block = 0; block < plan().cores.size(); ++block) {
      core.begin_block(static_cast<int64_t>(block), claims());
      const std::vector<PlannedTile>& tiles = plan().cores[block];
      const size_t ahead = buffers_ == 2 ? 1 : 0;
      for (size_t t = 0; t < tiles.size() + ahead; ++t) {
        if (t < tiles.size()) bring(walk, t, tiles[t]);
        if (t < ahead) continue;
        compute(walk, t - ahead, tiles[t - ahead]);
        take_out(walk, t - ahead, tiles[t - ahead]);
      }
    }
    return walk.status;
  }

  struct Walk {
    Core& core;
    void* const* args;
    std::vector<WrittenOnce>& written;
    uint32_t status;
  };

  bool is_on_core(size_t operand) const { return operand >= rows_.inputs || rows_.brings_inputs; }

  // One for each buffer of each operand, of no bytes where there is nothing of it on the core, then
  // the scratch.
  std::vector<Claim> claims() const {
    std::vector<Claim> claims;
    for (size_t i = 0; i < rows_.bytes.size(); ++i) {
      const bool in = i < rows_.inputs;
      const std::string name =
          (in ? "input " : "output ") + std::to_string(in ? i : i - rows_.inputs) + ", buffer ";
      const size_t bytes = is_on_core(i) ? static_cast<size_t>(most_rows_) * rows_.bytes[i] : 0;
      for (int b = 0; b < buffers_; ++b) {
        claims.push_back({CoreBuffer::kUnified, bytes, name + std::to_string(b)});
      }
    }
    claims.push_back({CoreBuffer::kUnified, static_cast<size_t>(most_rows_) * rows_.scratch,
                      "what rows are computed in"});
    return claims;
  }

  size_t claim_of(size_t operand, size_t tile) const {
    const auto buffers = static_cast<size_t>(buffers_);
    return operand * buffers + tile % buffers;
  }

  void bring(const Walk& walk, size_t number, const PlannedTile& tile) const {
    walk.core.begin_tile(static_cast<int64_t>(number));
    for (size_t i = 0; i < rows_.bytes.size(); ++i) {
      if (!is_on_core(i)) continue;
      const size_t bytes = static_cast<size_t>(tile.rows) * rows_.bytes[i];
      char* to = walk.core.refill(claim_of(i, number), bytes);
      if (i >= rows_.inputs) continue;
      const char* from = static_cast<const char*>(walk.args[i]);
      for_runs(i, tile, [&](int64_t element, int64_t count, int64_t at) {
        std::memcpy(to + static_cast<size_t>(at) * rows_.sizes[i],
                    from + static_cast<size_t>(element) * rows_.sizes[i],
                    static_cast<size_t>(count) * rows_.sizes[i]);
      });
    }
  }

  // Calls f(element of the operand, elements, place in the tile) for what lies together.
  template <class F>
  void for_runs(size_t operand, const PlannedTile& tile, const F& f) const {
    const int64_t each = rows_.elements[operand];
    if (rows_.step == 1) {
      if (tile.rows * each != 0) f(tile.row * each, tile.rows * each, int64_t{0});
      return;
    }
    for (int64_t row = tile.row; row < tile.end(); ++row) {
      const int64_t first = rows_.first_element(operand, row);
      for (int64_t i = 0; i < each; ++i) {
        f(first + i * rows_.step, int64_t{1}, (row - tile.row) * each + i);
      }
    }
  }

  void compute(Walk& walk, size_t number, const PlannedTile& tile) const {
    walk.core.begin_tile(static_cast<int64_t>(number));
    std::vector<void*> at;
    for (size_t i = 0; i < rows_.bytes.size(); ++i) {
      at.push_back(is_on_core(i)
                       ? origin_of(walk.core.at(claim_of(i, number)), tile.row, rows_.bytes[i])
                       : walk.args[i]);
    }
    char* scratch = walk.core.refill(claim_of(rows_.bytes.size(), 0),
                                     static_cast<size_t>(tile.rows) * rows_.scratch);
    instructions_.make(at.data(), tile.row, tile.end(), scratch);
    if (saturates_behind_) {  // ops that are stopped behind their kernel have one result
      walk.status |= vector::stop_at_largest(
          reinterpret_cast<uint16_t*>(walk.core.at(claim_of(rows_.inputs, number))),
          tile.rows * rows_.elements[rows_.inputs]);
    }
    walk.core.end_tile();
  }

  void take_out(Walk& walk, size_t number, const PlannedTile& tile) const {
    for (size_t i = rows_.inputs; i < rows_.bytes.size(); ++i) {
      const char* from = walk.core.at(claim_of(i, number));
      char* to = static_cast<char*>(walk.args[i]);
      for_runs(i, tile, [&](int64_t element, int64_t count, int64_t at) {
        walk.written[i - rows_.inputs].write(walk.core, element, count);
        std::memcpy(to + static_cast<size_t>(element) * rows_.sizes[i],
                    from + static_cast<size_t>(at) * rows_.sizes[i],
                    static_cast<size_t>(count) * rows_.sizes[i]);
      });
    }
  }

  RowLayout rows_;
  RowInstructions instructions_;
  bool saturates_behind_;
  int64_t most_rows_;
  int buffers_;
};

}  // namespace

RowLayout::RowLayout(std::span<const Type> input_types, std::span<const Type> output_types,
                     int64_t rows, bool brings)
    : count(rows), inputs(input_types.size()), brings_inputs(brings) {
  for (const auto types : {input_types, output_types}) {
    for (const Type& type : types) {
      elements.push_back(count == 0 ? 0 : type.shape.num_elements() / count);
      sizes.push_back(size_of(type.dtype));
      bytes.push_back(static_cast<size_t>(elements.back()) * sizes.back());
    }
  }
}

RowLayout rows_of_node(const Node& node, int64_t rows, bool brings) {
  std::vector<Type> inputs;
  for (const Value& v : node.inputs()) inputs.push_back(v.type());
  return {inputs, node.types(), rows, brings};
}

int64_t RowLayout::bytes_on_core(int64_t buffers) const {
  size_t all = 0;
  for (size_t i = brings_inputs ? 0 : inputs; i < bytes.size(); ++i) all += bytes[i];
  return buffers * static_cast<int64_t>(all) + static_cast<int64_t>(scratch);
}

TilePlan plan_whole_rows(const PlannedRequest& request, const RowLayout& rows, int64_t columns) {
  VectorWork work = request.launch.split.work;
  const int64_t fit = request.preset->ub_bytes / std::max<int64_t>(1, rows.bytes_on_core(2));
  work.tile_elements = std::min(work.tile_elements, std::max<int64_t>(1, fit) * columns);
  return plan_rows(work, request.launch.price.block_dim, rows.count, columns);
}

PlannedLaunch make_planned_rows(const PlannedRequest& request, TilePlan plan, RowLayout rows,
                                RowInstructions instructions) {
  return make_planned_rows(
      {request.preset, request.launch.op, std::move(plan), request.status_argument},
      std::move(rows), std::move(instructions), request.saturates_behind);
}

PlannedLaunch make_planned_rows(CoreLaunch launch, RowLayout rows, RowInstructions instructions,
                                bool saturates_behind) {
  if (rows.bytes_on_core(1) > launch.preset->ub_bytes) {
    return {nullptr, "a row of " + std::to_string(rows.bytes_on_core(1)) +
                         " bytes is longer than the unified buffer of " + launch.preset->name};
  }
  return {std::make_shared<PlannedRows>(std::move(launch), std::move(rows), std::move(instructions),
                                        saturates_behind),
          ""};
}

}  // namespace keel::npu
