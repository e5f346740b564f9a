// The operands of products with few columns or rows in f32 lanes, whatever their dtype is as
// stored. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_FLOATS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_FLOATS_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_FLOATS_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_FLOATS_INL_H
#endif

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_pack-inl.h"
#include "keel/backends/common/cube/cube_tall_skinny-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace hv = vector::HWY_NAMESPACE;

// Rows of `k` elements widened to f32, each padded with zeros to `stride`.
struct WidenRows {
  const void* src;
  size_t src_stride;
  const size_t* starts;  // of the rows, where they are not `src_stride` apart
  size_t rows, k;
  float* to;
  size_t stride;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    const FloatTag d;
    for (size_t r = 0; r < rows; ++r) {
      const auto* from = static_cast<const typename Loader::Element*>(src) +
                         (starts == nullptr ? r * src_stride : starts[r]);
      float* row = to + r * stride;
      size_t p = 0;
      for (; p + kFloatLanes <= k; p += kFloatLanes) {
        hn::StoreU(loader.load(d, from + p), d, row + p);
      }
      if (p < k) hn::StoreU(hv::load_part(loader, d, from + p, k - p), d, row + p);
    }
  }
};

// Calls f(FloatLanes) for a loader.
template <class F>
struct WithFloatLanes {
  const F& f;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    f(FloatLanes<Loader>{loader});
  }
};

struct FloatOperands {
  static constexpr size_t kDepth = 1;

  static void pack_columns(const PackCall& columns, size_t stride) {
    if (columns.k_contiguous) {
      const bool gathered = columns.rows != nullptr;
      const size_t begin = gathered ? 0 : columns.first * columns.stride;
      const size_t* starts = gathered ? columns.rows + columns.first : nullptr;
      return hv::with_loader(columns.dtype, columns.round_to, columns.bytes,
                             WidenRows{element_at(columns.src, columns.dtype, begin + columns.k0),
                                       columns.stride, starts, columns.count, columns.length,
                                       static_cast<float*>(columns.dst), stride});
    }
    // A panel of "rows" k0 .. with the columns along them: the packing transposes.
    PackCall pack = columns;
    pack.k_contiguous = true;
    pack.first = columns.k0;
    pack.count = columns.length;
    pack.k0 = columns.first;
    pack.length = columns.count;
    pack.width = (columns.length + kFloatLanes - 1) / kFloatLanes * kFloatLanes;
    pack.dst_stride = stride;
    pack_panels(pack);
  }

  static void pack_narrow(const PackCall& pack) { pack_panels(pack); }

  // Calls f(lanes) where the operand can be loaded straight into registers; whether it did. Bytes
  // are mapped there where all columns fit and the map is a matter of a few operations.
  template <class F>
  static bool in_registers(const PackCall& operand, const F& f) {
    if (operand.dtype == f32 && operand.round_to == f32) {
      f(plain_floats());
      return true;
    }
#if HWY_TARGET <= HWY_AVX2
    if (operand.dtype != u8 || operand.bytes->form == vector::ByteMap::Form::kTable) return false;
    const WithFloatLanes<F> with_lanes{f};
    if (operand.round_to == f32) {
      hv::with_computed_bytes(operand.bytes, with_lanes);
      return true;
    }
    // Processors with more registers pack rounded bytes: most multiply bf16 by other kernels.
    if constexpr (!kManyRegisters) {
      const hv::WithRounding<WithFloatLanes<F>> rounding{operand.bytes, with_lanes};
      hv::with_computed_bytes(operand.bytes, rounding);
      return true;
    }
#endif
    return false;
  }

  // Calls f(lanes) for an operand of which each element is loaded once: converting it there is no
  // more work than on the way to a packed copy. Code for each conversion would be half of what is
  // compiled for processors without AVX2, which convert on that way.
  template <class F>
  static void loaded_once(const PackCall& operand, const F& f) {
#if HWY_TARGET <= HWY_AVX2
    hv::with_loader(operand.dtype, operand.round_to, operand.bytes, WithFloatLanes<F>{f});
#else
    in_registers(operand, f);
#endif
  }

  // Rows that cannot be loaded there are widened, one group after the other.
  template <class Rows>
  static void dot(const PackCall& left, const Rows& rows, size_t stride, float* scratch) {
    if (in_registers(left, rows)) return;
    rows.run(plain_floats(), [&](size_t i, size_t r) HWY_ATTR {
      float* to = scratch + r * stride;
      hv::with_loader(left.dtype, left.round_to, left.bytes,
                      WidenRows{rows.stored(i), 0, nullptr, 1, rows.call.problem.k, to, stride});
      return static_cast<const float*>(to);
    });
  }

  // Panels that cannot are packed first.
  template <class Panel>
  static void add_panel(const PackCall& wide, const Panel& panel) {
    if (in_registers(wide, panel)) return;
    pack_panels(wide);
    panel.packed();
  }
};

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_FLOATS_INL_H
