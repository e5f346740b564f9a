// Attention and its gradient, in blocks of queries and keys, for f32 and, with f32 sums, f16 and
// bf16. Forward a unit of work is a query; backward it is a part of a head's keys, whose gradients
// it adds up over all queries. Where a head has several parts, the gradients of the queries are
// added up part by part in a second phase.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "keel/backends/common/shared_kernels.h"
#include "keel/backends/common/vector/attention.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/core/base/checked.h"
#include "keel/ops/attention_rules.h"

namespace keel {
namespace {

// Multiply-adds that keep a host thread busy for some microseconds.
constexpr int64_t kAttendedWorkOfABlock = int64_t{1} << 18;
constexpr int64_t kAddedElementsWorthABlock = 16384;
constexpr auto kQueries = static_cast<int64_t>(vector::kAttentionQueries);
// Keys are shared out where there are fewer heads than this, in parts of at least so many keys.
constexpr int64_t kWantedUnits = 8;
constexpr int64_t kKeysOfAPart = 512;
static_assert(kKeysOfAPart % static_cast<int64_t>(vector::kAttentionKeys) == 0);

char* element(void* base, int64_t at, DType dtype) {
  return static_cast<char*>(base) + static_cast<size_t>(at) * size_of(dtype);
}

// Fills in what both directions are given, for queries from `query` on. `mask` may be null.
void fill_block(const AttentionGeometry& g, const AttentionHead& head, void* const* args,
                const void* mask, DType dtype, int64_t query, vector::AttentionBlock& call) {
  call.queries = element(args[0], head.queries + query * g.features, dtype);
  call.keys = element(args[1], head.keys, dtype);
  call.values = element(args[2], head.values, dtype);
  call.dtype = dtype;
  call.features = static_cast<size_t>(g.features);
  call.outputs = static_cast<size_t>(g.outputs);
  call.scale = static_cast<float>(g.scale);
  call.causal = g.causal;
  call.keys_before = query + 1 + g.keys - g.queries;
  if (!g.masked) return;
  call.mask = static_cast<const bool*>(mask) + head.mask + query * g.mask_query_step;
  call.mask_query_step = g.mask_query_step;
  call.mask_key_step = g.mask_key_step;
}

class AttentionKernel final : public RangeKernel {
 public:
  AttentionKernel(const Node& node, AttentionGeometry g, int most_blocks)
      : RangeKernel(node, units_of(g, most_blocks)),
        g_(std::move(g)),
        dtype_(node.input(0).dtype()),
        result_dtype_(node.type().dtype),
        compute_(vector::find_attention_forward()) {}

  size_t scratch_bytes() const override {
    return vector::attention_forward_scratch(static_cast<size_t>(g_.features),
                                             static_cast<size_t>(g_.outputs));
  }

  void make(void* const* args, int64_t begin, int64_t end, void* scratch) const override {
    const size_t results = g_.masked ? 4 : 3;
    vector::AttentionForwardCall call;
    call.key_end = g_.keys;
    call.result_dtype = result_dtype_;
    call.scratch = scratch;
    while (begin < end) {
      const int64_t query = begin % g_.queries;
      const int64_t count = std::min({kQueries, g_.queries - query, end - begin});
      const AttentionHead& head = g_.heads[static_cast<size_t>(begin / g_.queries)];
      fill_block(g_, head, args, args[3], dtype_, query, call);
      call.query_count = static_cast<size_t>(count);
      call.result = element(args[results], begin * g_.outputs, result_dtype_);
      call.largest = static_cast<float*>(args[results + 1]) + begin;
      call.total = static_cast<float*>(args[results + 2]) + begin;
      compute_(call);
      begin += count;
    }
  }

 private:
  // Blocks of whole heads where at least half as many blocks have them, so that few queries are
  // left over at their ends.
  static RangeUnits units_of(const AttentionGeometry& g, int most_blocks) {
    const auto heads = static_cast<int64_t>(g.heads.size());
    const int64_t work = checked_mul(heads, checked_mul(g.pairs(), g.features + g.outputs));
    int64_t blocks = blocks_worth(work, kAttendedWorkOfABlock, most_blocks);
    int64_t whole = std::min(blocks, heads);
    while (whole > 1 && heads % whole != 0) --whole;
    if (2 * whole >= blocks) blocks = whole;
    return {checked_mul(heads, g.queries), blocks};
  }

  AttentionGeometry g_;
  DType dtype_, result_dtype_;
  vector::AttentionForward compute_;
};

class AttentionGradientKernel final : public Kernel {
 public:
  AttentionGradientKernel(const Node& node, AttentionGeometry g, int most_blocks)
      : g_(std::move(g)),
        dtype_(node.input(0).dtype()),
        result_dtype_(node.input(3).dtype()),
        gradient_dtype_(node.type().dtype),
        compute_(vector::find_attention_backward()),
        add_(vector::find_instruction("add", f32, f32)),
        cast_(vector::find_instruction("cast", f32, gradient_dtype_)) {
    const auto heads = static_cast<int64_t>(g_.heads.size());
    if (heads < kWantedUnits && heads > 0) {
      const int64_t wanted = (kWantedUnits + heads - 1) / heads;
      parts_ = std::clamp<int64_t>(g_.keys / kKeysOfAPart, 1, wanted);
    }
    const auto block = static_cast<int64_t>(vector::kAttentionKeys);
    const int64_t blocks_of_part = (g_.keys + parts_ * block - 1) / (parts_ * block);
    keys_of_part_ = blocks_of_part * block;
    const int64_t units = checked_mul(heads, parts_);
    const int64_t work =
        checked_mul(heads, checked_mul(g_.pairs(), 3 * g_.features + 2 * g_.outputs));
    blocks_ = static_cast<int>(std::clamp<int64_t>(
        std::min(units, blocks_worth(work, kAttendedWorkOfABlock, most_blocks)), 1, most_blocks));
    elements_ = checked_mul(g_.queries, g_.features);
    merges_ = static_cast<int>(std::clamp<int64_t>(
        blocks_worth(heads * elements_, kAddedElementsWorthABlock, most_blocks), 1, most_blocks));
    call_bytes_ = vector::attention_backward_scratch(static_cast<size_t>(g_.features),
                                                     static_cast<size_t>(g_.outputs));
    scratch_ = call_bytes_;
    if (gradient_dtype_ != f32) {
      const int64_t sums = checked_mul(std::min(keys_of_part_, g_.keys), g_.features + g_.outputs);
      scratch_ += align_up(static_cast<size_t>(sums) * sizeof(float), 64);
    }
  }

  size_t workspace_bytes() const {
    size_t bytes = scratch_ * static_cast<size_t>(blocks_);
    if (parts_ > 1) bytes += static_cast<size_t>(units() * elements_) * sizeof(float);
    return bytes;
  }
  int phases() const override { return parts_ > 1 ? 2 : 1; }
  int blocks(int phase) const override { return phase == 0 ? blocks_ : merges_; }

  void run(void* const* args, int phase, int block) const override {
    if (phase == 1) return merge(args, block);
    for (int64_t i = units() * block / blocks_; i < units() * (block + 1) / blocks_; ++i)
      differentiate(args, i, block);
  }

 private:
  enum Input : size_t { kResult = 3, kLargest, kTotal, kUpstream, kMask };

  int64_t units() const { return static_cast<int64_t>(g_.heads.size()) * parts_; }
  size_t inputs() const { return g_.masked ? kMask + 1 : size_t{kMask}; }
  // Returns where a unit's part of the queries' gradients lies until all parts are added up.
  float* partial(void* const* args, int64_t unit) const {
    char* base = static_cast<char*>(args[inputs() + 3]) + scratch_ * static_cast<size_t>(blocks_);
    return reinterpret_cast<float*>(base) + unit * elements_;
  }

  void differentiate(void* const* args, int64_t unit, int block) const {
    const auto number = static_cast<size_t>(unit / parts_);
    const AttentionHead& head = g_.heads[number];
    const int64_t rows = static_cast<int64_t>(number) * g_.queries;
    char* scratch = static_cast<char*>(args[inputs() + 3]) + scratch_ * static_cast<size_t>(block);
    vector::AttentionBackwardCall call;
    call.scratch = scratch;
    call.key_begin = std::min(unit % parts_ * keys_of_part_, g_.keys);
    call.key_end = std::min(call.key_begin + keys_of_part_, g_.keys);
    call.result_dtype = result_dtype_;
    call.dq_dtype = parts_ > 1 ? f32 : gradient_dtype_;
    const int64_t keys = call.key_end - call.key_begin;
    const int64_t dk = head.keys + call.key_begin * g_.features;
    const int64_t dv = head.values + call.key_begin * g_.outputs;
    if (gradient_dtype_ == f32) {
      call.dk = static_cast<float*>(args[inputs() + 1]) + dk;
      call.dv = static_cast<float*>(args[inputs() + 2]) + dv;
    } else {
      call.dk = reinterpret_cast<float*>(scratch + call_bytes_);
      call.dv = call.dk + keys * g_.features;
    }
    std::fill_n(call.dk, keys * g_.features, 0.0f);
    std::fill_n(call.dv, keys * g_.outputs, 0.0f);
    for (int64_t query = 0; query < g_.queries; query += kQueries) {
      fill_block(g_, head, args, args[kMask], dtype_, query, call);
      const int64_t row = rows + query;
      call.query_count = static_cast<size_t>(std::min(kQueries, g_.queries - query));
      call.result = element(args[kResult], row * g_.outputs, result_dtype_);
      call.upstream = element(args[kUpstream], row * g_.outputs, dtype_);
      call.largest = static_cast<const float*>(args[kLargest]) + row;
      call.total = static_cast<const float*>(args[kTotal]) + row;
      call.dq =
          parts_ > 1
              ? partial(args, unit) + query * g_.features
              : static_cast<void*>(element(args[inputs()], row * g_.features, gradient_dtype_));
      compute_(call);
    }
    if (gradient_dtype_ == f32) return;
    round(call.dk, keys * g_.features, element(args[inputs() + 1], dk, gradient_dtype_));
    round(call.dv, keys * g_.outputs, element(args[inputs() + 2], dv, gradient_dtype_));
  }

  void round(const float* from, int64_t count, void* to) const {
    VectorCall call;
    call.dst = to;
    call.src[0] = from;
    call.n = static_cast<size_t>(count);
    cast_(call);
  }

  // Adds up a share of the queries' gradients, part by part.
  void merge(void* const* args, int block) const {
    const int64_t all = static_cast<int64_t>(g_.heads.size()) * elements_;
    int64_t begin = all * block / merges_;
    const int64_t end = all * (block + 1) / merges_;
    while (begin < end) {
      const int64_t head = begin / elements_, at = begin % elements_;
      const int64_t count = std::min(elements_ - at, end - begin);
      float* sums = partial(args, head * parts_) + at;
      for (int64_t part = 1; part < parts_; ++part) {
        VectorCall call;
        call.dst = sums;
        call.src[0] = sums;
        call.src[1] = partial(args, head * parts_ + part) + at;
        call.n = static_cast<size_t>(count);
        add_(call);
      }
      round(sums, count, element(args[inputs()], begin, gradient_dtype_));
      begin += count;
    }
  }

  AttentionGeometry g_;
  DType dtype_, result_dtype_, gradient_dtype_;
  vector::AttentionBackward compute_;
  VectorInstruction add_, cast_;
  int64_t parts_ = 1, keys_of_part_ = 0, elements_ = 0;
  int blocks_ = 1, merges_ = 1;
  size_t call_bytes_ = 0, scratch_ = 0;
};

Support supports_attention(const Node& node) {
  if (node.input(0).dtype() != f64) return {true, ""};
  return {false, "attention in f64 is composed of products and softmax"};
}

std::unique_ptr<RangeKernel> make_attention(const Node& node, int most_blocks) {
  return std::make_unique<AttentionKernel>(node, AttentionGeometry(node, 3), most_blocks);
}

KernelPlan plan_attention(const Node& node, int most_blocks) {
  return plan_ranges(make_attention(node, most_blocks), TaskKind::kAiCore);
}

KernelPlan plan_attention_gradient(const Node& node, int most_blocks) {
  auto kernel =
      std::make_unique<AttentionGradientKernel>(node, AttentionGeometry(node, 7), most_blocks);
  KernelPlan plan;
  plan.block_dim = kernel->blocks(0);
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.kernel = std::move(kernel);
  return plan;
}

constexpr SharedKernel kAttentionKernels[] = {
    {"attention", plan_attention, make_attention, supports_attention},
    {"attention_gradient", plan_attention_gradient, nullptr, supports_attention}};

}  // namespace

std::span<const SharedKernel> attention_kernels() { return kAttentionKernels; }

}  // namespace keel
