// Products of integers as planned: sums of some rows and columns stay in unified buffer, while A's
// and B's parts come there, some steps of k at a time.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/common/vector/integer_product.h"
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/planned/core_run.h"
#include "keel/backends/npu/planned/product_operand.h"
#include "keel/backends/npu/scheduler/tile_plan.h"
#include "keel/core/tensor/buffer.h"

namespace keel::npu {
namespace {

// Numbers of a core's claims; the operands have two buffers each.
enum IntegerProductClaims : size_t { kSums = 0, kA = 1, kB = 3 };

class PlannedIntegerProduct final : public CoreRun {
 public:
  PlannedIntegerProduct(const PlannedRequest& request, TilePlan plan)
      : CoreRun(request, std::move(plan)),
        matrices_(request.anchored.matrices()),
        result_(request.anchored.anchor().type()),
        a_(request.anchored, matrices_, &ProductMatrices::a, &ProductMatrices::Starts::a,
           result_.dtype),
        b_(request.anchored, matrices_, &ProductMatrices::b, &ProductMatrices::Starts::b,
           result_.dtype),
        multiply_(vector::find_integer_multiply(result_.dtype)),
        size_(size_of(result_.dtype)),
        most_rows_(most_rows()),
        most_columns_(most_columns()) {
    const auto size = static_cast<int64_t>(size_);
    const int64_t left = preset().ub_bytes - most_rows_ * most_columns_ * size;
    const int64_t step = 2 * (most_rows_ + most_columns_) * size;
    steps_ = std::clamp<int64_t>(left / std::max<int64_t>(1, step), 1,
                                 std::max<int64_t>(1, matrices_.k));
  }

 private:
  uint32_t run_blocks(Core& core, void* const* args,
                      std::vector<WrittenOnce>& written) const override {
    written.emplace_back("output 0", result_.shape.num_elements());
    const auto scratch = allocate_host_buffer(vector::integer_product_scratch(part(steps_)));
    for (size_t block = 0; block < plan().cores.size(); ++block) {
      core.begin_block(static_cast<int64_t>(block), claims());
      for (size_t t = 0; t < plan().cores[block].size(); ++t) {
        core.begin_tile(static_cast<int64_t>(t));
        const PlannedTile& tile = plan().cores[block][t];
        sum_up(core, args, tile, scratch->address());
        take_out(core, args, tile, written[0]);
      }
    }
    return 0;
  }

  vector::IntegerProduct part(int64_t steps) const {
    return {static_cast<size_t>(most_rows_), static_cast<size_t>(most_columns_),
            static_cast<size_t>(steps), matrices_.a.transposed, matrices_.b.transposed};
  }

  std::vector<Claim> claims() const {
    std::vector<Claim> claims;
    const auto claim = [&](int64_t elements, const char* what) {
      claims.push_back({CoreBuffer::kUnified, static_cast<size_t>(elements) * size_, what});
    };
    claim(most_rows_ * most_columns_, "sums");
    claim(most_rows_ * steps_, "the left operand, buffer 0");
    claim(most_rows_ * steps_, "the left operand, buffer 1");
    claim(most_columns_ * steps_, "the right operand, buffer 0");
    claim(most_columns_ * steps_, "the right operand, buffer 1");
    return claims;
  }

  // All of k, steps by steps; the next ones are brought before these are multiplied.
  void sum_up(Core& core, void* const* args, const PlannedTile& tile, void* scratch) const {
    const size_t bytes = static_cast<size_t>(tile.rows * tile.columns) * size_;
    std::memset(core.refill(kSums, bytes), 0, bytes);
    const int64_t k = matrices_.k;
    for (int64_t at = 0, ready = -1; ready < k; ready = at, at += steps_) {
      if (at < k) bring(core, args, tile, at, std::min(steps_, k - at));
      if (ready >= 0) multiply(core, tile, ready, std::min(steps_, k - ready), scratch);
    }
  }

  size_t buffer_of(int64_t k) const { return static_cast<size_t>(k / steps_ % 2); }

  void bring(Core& core, void* const* args, const PlannedTile& tile, int64_t k,
             int64_t steps) const {
    const auto batch = static_cast<size_t>(tile.batch);
    const auto bytes = [&](int64_t extent) { return static_cast<size_t>(extent * steps) * size_; };
    a_.read(args, {}, batch, along_k(matrices_.a.transposed, tile.row, tile.rows, k, steps),
            core.refill(kA + buffer_of(k), bytes(tile.rows)));
    b_.read(args, {}, batch, along_k(!matrices_.b.transposed, tile.column, tile.columns, k, steps),
            core.refill(kB + buffer_of(k), bytes(tile.columns)));
  }

  void multiply(Core& core, const PlannedTile& tile, int64_t k, int64_t steps,
                void* scratch) const {
    vector::IntegerProduct product = part(steps);
    product.m = static_cast<size_t>(tile.rows);
    product.n = static_cast<size_t>(tile.columns);
    vector::IntegerProductCall call;
    call.a = core.at(kA + buffer_of(k));
    call.b = core.at(kB + buffer_of(k));
    call.c = core.at(kSums);
    call.c_stride = call.n1 = product.n;
    call.m1 = product.m;
    call.adds = true;
    call.scratch = scratch;
    multiply_(product, call);
    core.end_tile();
  }

  void take_out(Core& core, void* const* args, const PlannedTile& tile,
                WrittenOnce& written) const {
    const size_t row = static_cast<size_t>(tile.columns) * size_;
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t at = matrices_.batch[static_cast<size_t>(tile.batch)].c +
                         (tile.row + i) * matrices_.c_stride + tile.column;
      written.write(core, at, tile.columns);
      std::memcpy(static_cast<char*>(args[2]) + static_cast<size_t>(at) * size_,
                  core.at(kSums) + static_cast<size_t>(i) * row, row);
    }
  }

  ProductMatrices matrices_;
  Type result_;
  ProductOperand a_, b_;
  vector::IntegerMultiply multiply_;
  size_t size_;                       // of an element
  int64_t most_rows_, most_columns_;  // of a tile
  int64_t steps_ = 1;                 // of k that are brought at once
};

TilePlan tiles_of_integer_product(const PlannedRequest& request) {
  return plan_vector_product(request.launch.split.work, request.launch.price.block_dim,
                             integer_product_tiles(*request.preset, request.anchored));
}

PlannedLaunch make_integer_product_run(const PlannedRequest& request, TilePlan plan) {
  return {std::make_shared<PlannedIntegerProduct>(request, std::move(plan)), ""};
}

}  // namespace

const PlannedEntry kPlannedIntegerProduct{.tiles = tiles_of_integer_product,
                                          .run = make_integer_product_run};

}  // namespace keel::npu
