#include "keel/backends/npu/cost/vector_side.h"

#include <algorithm>
#include <cmath>

#include "keel/backends/npu/cost/work.h"

namespace keel::npu {

double VectorShare::longest() const { return std::max({in, compute, out}); }

void VectorShare::add(const VectorShare& other, double times) {
  in += times * other.in;
  compute += times * other.compute;
  out += times * other.out;
  scalar += times * other.scalar;
  latency += times * other.latency;
}

VectorSide::VectorSide(const Preset& preset, const CubeWork& work) : preset_(preset), work_(work) {}

bool VectorSide::has_epilogue() const {
  return work_.epilogue_pass_bytes > 0 || work_.epilogue_bytes_in > 0 || work_.whole_rows;
}

double VectorSide::handed_size() const {
  return static_cast<double>(size_of(work_.wide ? f32 : work_.dtype));
}

// Each of the cores streams its part through two halves of unified buffer.
VectorShare VectorSide::share(const Piece& piece) const {
  if (piece.elements <= 0) return {};
  const auto cores = static_cast<double>(preset_.vector_cores_of_a_cube());
  const auto fits = static_cast<double>(
      tile_that_fits(preset_, static_cast<int64_t>(std::ceil(2 * piece.buffer))));
  const double pieces = std::max(1.0, std::ceil(piece.elements / cores / fits));
  VectorShare s;
  s.in = pieces * static_cast<double>(piece.loads) * preset_.gm_ub_issue_ns +
         piece.bytes_in * piece.factor / cores / preset_.gm_ub_gb_per_s;
  s.compute = piece.pass_bytes / cores / static_cast<double>(preset_.vector_bytes_per_cycle) /
              preset_.clock_ghz() / preset_.vector_share;
  s.out = pieces * preset_.gm_ub_issue_ns + piece.bytes_out / cores / preset_.gm_ub_gb_per_s;
  s.scalar = pieces * static_cast<double>(preset_.scalar_cycles_per_tile) / preset_.clock_ghz();
  s.latency = (s.in + s.compute + s.out + s.longest() * (pieces - 1)) / pieces;
  return s;
}

VectorShare VectorSide::load(double elements, double stored, int64_t pass_bytes,
                             bool aligned) const {
  const auto loaded = static_cast<double>(size_of(work_.dtype));
  return share({.elements = elements,
                .bytes_in = elements * stored,
                .bytes_out = elements * loaded,
                .pass_bytes = elements * static_cast<double>(pass_bytes),
                .buffer = stored + loaded,
                .factor = aligned ? 1 : preset_.unaligned_ub_factor});
}

VectorShare VectorSide::load_a(int64_t rows) const {
  if (!loads_a()) return {};
  const int64_t stored =
      work_.stored_a == 0 ? static_cast<int64_t>(size_of(work_.dtype)) : work_.stored_a;
  const double elements =
      static_cast<double>(rows) * static_cast<double>(work_.k) / work_.repeats_a;
  return load(elements, static_cast<double>(stored), work_.load_pass_a, work_.aligned_a);
}

VectorShare VectorSide::load_b(int64_t cols) const {
  if (!loads_b()) return {};
  const int64_t stored =
      work_.stored_b == 0 ? static_cast<int64_t>(size_of(work_.dtype)) : work_.stored_b;
  const double elements =
      static_cast<double>(cols) * static_cast<double>(work_.k) / work_.repeats_b;
  return load(elements, static_cast<double>(stored), work_.load_pass_b, work_.aligned_b);
}

VectorShare VectorSide::epilogue(int64_t rows, int64_t cols) const {
  if (!has_epilogue()) return {};
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  const double out =
      work_.epilogue_bytes_out >= 0 ? static_cast<double>(work_.epilogue_bytes_out) : handed_size();
  const auto beside = static_cast<double>(work_.epilogue_bytes_in);
  return share({.elements = elements,
                .bytes_in = elements * (handed_size() + beside) +
                            static_cast<double>(rows * work_.row_bytes_in),
                .bytes_out = elements * out + static_cast<double>(rows * work_.row_bytes_out),
                .pass_bytes = elements * static_cast<double>(work_.epilogue_pass_bytes),
                .loads = work_.epilogue_bytes_in > 0 ? 2 : 1,
                .buffer = handed_size() + beside + out});
}

}  // namespace keel::npu
