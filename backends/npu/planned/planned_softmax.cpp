// Softmax and its family as planned: each core takes its rows through unified buffer, some whole
// rows at a time, operands and results in two buffers each where they fit twice.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/common/row_op.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/npu/kernels/planned_row.h"
#include "keel/backends/npu/planned/written_once.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {
namespace {

// Rows, and bytes of a row of each operand and result.
struct Rows {
  explicit Rows(const Node& node)
      : columns(node.input(0).shape().back()),
        count(columns == 0 ? 0 : node.input(0).shape().num_elements() / columns) {
    const auto add = [&](const Type& type) {
      elements.push_back(count == 0 ? 0 : type.shape.num_elements() / count);
      bytes.push_back(static_cast<size_t>(elements.back()) * size_of(type.dtype));
    };
    for (const Value& v : node.inputs()) add(v.type());
    inputs = bytes.size();
    for (const Type& type : node.types()) add(type);
  }
  // Returns the bytes of all operands and results, each once.
  int64_t all_bytes() const {
    size_t all = 0;
    for (const size_t b : bytes) all += b;
    return static_cast<int64_t>(all);
  }

  int64_t columns, count;
  std::vector<int64_t> elements;
  std::vector<size_t> bytes;
  size_t inputs = 0;
};

// Where row 0 would be of rows that begin with row `first`; see element_zero in
// planned_product.cpp.
void* row_zero(void* at, int64_t first, size_t row_bytes) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): once for each tile, and never read at row 0.
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) -
                                 static_cast<size_t>(first) * row_bytes);
}

class PlannedSoftmax final : public PlannedRun {
 public:
  PlannedSoftmax(const PlannedRequest& request, TilePlan plan, std::unique_ptr<RowOp> op, Rows rows)
      : preset_(request.preset),
        name_(request.launch.op),
        plan_(std::move(plan)),
        row_op_(std::move(op)),
        rows_(std::move(rows)) {
    for (const auto& tiles : plan_.cores) {
      for (const PlannedTile& tile : tiles) most_rows_ = std::max(most_rows_, tile.rows);
    }
    buffers_ = 2 * most_rows_ * rows_.all_bytes() <= preset_->ub_bytes ? 2 : 1;
  }

  void run(void* const* args) const override {
    Core core(*preset_, name_);
    std::vector<WrittenOnce> written;
    for (size_t i = rows_.inputs; i < rows_.bytes.size(); ++i) {
      written.emplace_back("output " + std::to_string(i - rows_.inputs),
                           rows_.count * rows_.elements[i]);
    }
    for (size_t block = 0; block < plan_.cores.size(); ++block) {
      core.begin_block(static_cast<int64_t>(block), claims());
      const std::vector<PlannedTile>& tiles = plan_.cores[block];
      const size_t ahead = buffers_ == 2 ? 1 : 0;
      for (size_t t = 0; t < tiles.size() + ahead; ++t) {
        if (t < tiles.size()) bring(core, t, tiles[t], args);
        if (t < ahead) continue;
        compute(core, t - ahead, tiles[t - ahead]);
        take_out(core, t - ahead, tiles[t - ahead], args, written);
      }
    }
    for (const WrittenOnce& output : written) output.require_all(core);
  }

 private:
  std::vector<Claim> claims() const {
    std::vector<Claim> claims;
    for (size_t i = 0; i < rows_.bytes.size(); ++i) {
      const bool in = i < rows_.inputs;
      const std::string name =
          (in ? "input " : "output ") + std::to_string(in ? i : i - rows_.inputs) + ", buffer ";
      for (int b = 0; b < buffers_; ++b) {
        claims.push_back({CoreBuffer::kUnified, static_cast<size_t>(most_rows_) * rows_.bytes[i],
                          name + std::to_string(b)});
      }
    }
    return claims;
  }

  size_t claim_of(size_t operand, size_t tile) const {
    const auto buffers = static_cast<size_t>(buffers_);
    return operand * buffers + tile % buffers;
  }

  void bring(Core& core, size_t number, const PlannedTile& tile, void* const* args) const {
    core.begin_tile(static_cast<int64_t>(number));
    for (size_t i = 0; i < rows_.bytes.size(); ++i) {
      const size_t bytes = static_cast<size_t>(tile.rows) * rows_.bytes[i];
      char* to = core.refill(claim_of(i, number), bytes);
      if (i >= rows_.inputs) continue;
      std::memcpy(
          to, static_cast<const char*>(args[i]) + static_cast<size_t>(tile.row) * rows_.bytes[i],
          bytes);
    }
  }

  void compute(Core& core, size_t number, const PlannedTile& tile) const {
    core.begin_tile(static_cast<int64_t>(number));
    std::vector<void*> at;
    for (size_t i = 0; i < rows_.bytes.size(); ++i) {
      at.push_back(row_zero(core.at(claim_of(i, number)), tile.row, rows_.bytes[i]));
    }
    row_op_->run(at.data(), tile.row, tile.end());
    core.end_tile();
  }

  void take_out(Core& core, size_t number, const PlannedTile& tile, void* const* args,
                std::vector<WrittenOnce>& written) const {
    for (size_t i = rows_.inputs; i < rows_.bytes.size(); ++i) {
      written[i - rows_.inputs].write(core, tile.row * rows_.elements[i],
                                      tile.rows * rows_.elements[i]);
      std::memcpy(static_cast<char*>(args[i]) + static_cast<size_t>(tile.row) * rows_.bytes[i],
                  core.at(claim_of(i, number)), static_cast<size_t>(tile.rows) * rows_.bytes[i]);
    }
  }

  std::shared_ptr<const Preset> preset_;
  std::string name_;
  TilePlan plan_;
  std::unique_ptr<RowOp> row_op_;
  Rows rows_;
  int64_t most_rows_ = 0;
  int buffers_ = 2;
};

// As many whole rows as the prices' tile has elements for, where unified buffer also has room for
// what comes with each row twice.
TilePlan tiles(const PlannedRequest& request) {
  const Rows rows(request.anchored.node());
  VectorWork work = request.launch.split.work;
  const int64_t fit = request.preset->ub_bytes / std::max<int64_t>(1, 2 * rows.all_bytes());
  work.tile_elements = std::min(work.tile_elements, std::max<int64_t>(1, fit) * rows.columns);
  return plan_rows(work, request.launch.price.block_dim, rows.count, rows.columns);
}

std::shared_ptr<const PlannedRun> make_run(const PlannedRequest& request, TilePlan plan) {
  const Node& node = request.anchored.node();
  const Node* const nodes[] = {&node};
  Rows rows(node);
  // A longer row is read twice, as the prices say, which these instructions do not do.
  if (rows.all_bytes() > request.preset->ub_bytes) return nullptr;
  return std::make_shared<PlannedSoftmax>(request, std::move(plan),
                                          vector::make_softmax_rows(nodes), std::move(rows));
}

}  // namespace

const PlannedRow kPlannedSoftmax{.tiles = tiles, .run = make_run};

}  // namespace keel::npu
