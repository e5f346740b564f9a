#include "keel/backends/common/cube/cube_windows.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "keel/backends/common/vector/instructions.h"

namespace keel {
namespace {

using Axis = WindowRows::Axis;

// The axis over images that have the positions around them to which windows reach. REQUIRES taps
// that follow each other upwards.
Axis padded(const Axis& axis) {
  const int64_t highest = axis.position(axis.windows - 1, axis.taps - 1);
  Axis result = axis;
  const int64_t low = std::max<int64_t>(0, -axis.first);
  result.size += low + std::max<int64_t>(0, highest - (axis.size - 1));
  result.first += low;
  return result;
}

// Adds a run behind the `count` that are there, or to the last of them where it goes on there.
void append_run(const CubeRun& run, size_t k_step, CubeRun* runs, size_t* count) {
  CubeRun* last = *count == 0 ? nullptr : runs + *count - 1;
  if (last != nullptr && run.at == last->at + last->length * k_step &&
      run.k == last->k + last->length)
    last->length += run.length;
  else
    runs[(*count)++] = run;
}

// Says whether kernels of 16-bit elements find whole steps of k side by side.
bool has_whole_runs(const CubeProblem& p, const CubeKernels& kernels) {
  return size_of(p.a) == kernels.packed_size && !p.transpose_a && p.parts == 1 && p.k > 0 &&
         static_cast<size_t>(p.a_windows->channels) % kernels.k_multiple == 0;
}

// Says whether tiles had better load windows from where they lie. Rows of a tile that are not
// evenly apart, as where a line of windows ends within it, are copied for each tile of columns:
// windows that are copied beforehand are copied for all of them at once.
bool gains_in_place(const CubeProblem& p, const CubeKernels& kernels) {
  constexpr int64_t kRowsOfTile = 16, kShortLine = 8;
  const int64_t line = p.a_windows->axes[1].windows;
  return line % kRowsOfTile == 0 || (line >= kShortLine && p.n <= 2 * kernels.cols);
}

constexpr int64_t kChunk = 8, kShort = 128;

void copy_chunk(const float* from, float* to) { std::memcpy(to, from, kChunk * sizeof(float)); }

// A line between zeros, in chunks that overlap: calls of the library would take longer than it.
void copy_short_line(const float* from, int64_t left, int64_t inside, int64_t right, float* to) {
  constexpr float kZeros[kChunk] = {};
  copy_chunk(kZeros, to);
  copy_chunk(kZeros, to + left + inside + right - kChunk);
  to += left;
  for (int64_t e = 0; e + kChunk <= inside; e += kChunk) copy_chunk(from + e, to + e);
  copy_chunk(from + inside - kChunk, to + inside - kChunk);
}

// In a copy, nothing lies between the images, their lines and their positions.
WindowRows padded(const WindowRows& windows) {
  WindowRows result = windows;
  result.axes = {padded(windows.axes[0]), padded(windows.axes[1])};
  result.axes[1].pitch = result.channels;
  result.axes[0].pitch = result.axes[1].size * result.channels;
  result.image_pitch = result.axes[0].size * result.axes[0].pitch;
  return result;
}

}  // namespace

CubeWindows::CubeWindows(const CubeProblem& problem, const CubeKernels& kernels)
    : stored_(*problem.a_windows),
      read_(stored_),
      dtype_(problem.a),
      element_size_(kernels.packed_size),
      round_(dtype_ == f32 && problem.round_to != f32
                 ? vector::find_instruction("cast", f32, problem.round_to)
                 : nullptr),
      widen_(widening(problem)),
      transposed_(problem.transpose_a),
      copies_(stored_.has_padding() || size_of(dtype_) != element_size_ || round_ != nullptr) {
  if (copies_) read_ = padded(stored_);
  by_lines_ =
      !transposed_ && kernels.multiply_line != nullptr && takes_lines(problem.k, kernels.rows);
}

// Rows of one line are evenly apart, which tiles that begin in one and end in the next are not.
bool CubeWindows::takes_lines(size_t k, size_t tile_rows) const {
  constexpr size_t kMostPlaces = 192;
  constexpr int64_t kLong = 32;
  const WindowRows::Axis& across = read_.axes[1];
  const bool together = across.tap_step * across.pitch == read_.channels;
  if (k > kMostPlaces) return false;
  if ((together ? read_.line() : read_.channels) < kLong) return true;
  const size_t windows = line_windows(), tiles = (windows + tile_rows - 1) / tile_rows;
  return windows % tile_rows != 0 && 4 * windows > 3 * tiles * tile_rows;
}

VectorInstruction CubeWindows::widening(const CubeProblem& problem) {
  const DType stored = problem.a == f32 ? problem.round_to : problem.a;
  return size_of(stored) == 2 ? vector::find_instruction("cast", stored, f32) : nullptr;
}

std::shared_ptr<const CubeWindows> CubeWindows::of(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  const CubeKernels& kernels = *plan.kernels;
  if (!p.a_windows || kernels.multiply_spread == nullptr) return {};
  if (p.a == u8 && p.round_to != f32) return {};
  const bool of_16_bits = kernels.packed_size != sizeof(float);
  if (of_16_bits && !(has_whole_runs(p, kernels) && gains_in_place(p, kernels))) return {};
  // Places are counted from a row's beginning on.
  for (const Axis& axis : p.a_windows->axes) {
    if (axis.tap_step < 0 || axis.windows == 0) return {};
  }
  const CubeWindows windows(p, kernels);
  const Axis& across = windows.read_.axes[1];
  const auto row_bytes = static_cast<size_t>(across.step * across.pitch) * kernels.packed_size;
  if (!p.transpose_a && row_bytes % kSameSet == 0) return {};
  return std::make_shared<const CubeWindows>(windows);
}

CubeWindows::Lines CubeWindows::lines_of(size_t first, size_t count) const {
  const Axis& down = read_.axes[0];
  const auto line_of = [&](size_t window, int64_t tap) {
    const int64_t row = static_cast<int64_t>(window) / read_.axes[1].windows;
    return row / down.windows * down.size + down.position(row % down.windows, tap);
  };
  return {line_of(first, 0), line_of(first + count - 1, down.taps - 1) + 1};
}

int64_t CubeWindows::most_lines(size_t count) const {
  const auto& [down, across] = read_.axes;
  // Rows of windows behind the first one, and how many of them may be an image's first.
  const int64_t rows = (static_cast<int64_t>(count) + across.windows - 2) / across.windows;
  const int64_t images = (rows + down.windows - 1) / down.windows;
  const int64_t to_next_image = down.size - (down.windows - 1) * down.step;
  return (rows - images) * down.step + images * std::max(down.step, to_next_image) +
         (down.taps - 1) * down.tap_step + 1;
}

void CubeWindows::copy_lines(const void* images, const vector::ByteMap* bytes, Lines lines,
                             void* to) const noexcept {
  if (element_size_ == sizeof(float))
    return copy_floats(images, bytes, lines, static_cast<float*>(to));
  copy_stored(images, lines, static_cast<char*>(to));
}

// Lines of 16-bit elements, which stay as they are.
void CubeWindows::copy_stored(const void* images, Lines lines, char* to) const noexcept {
  const auto& [down, across] = stored_.axes;
  const int64_t above = read_.axes[0].first - down.first, of_image = read_.axes[0].size;
  const auto bytes_of = [&](int64_t elements) {
    return static_cast<size_t>(elements) * element_size_;
  };
  const size_t whole = bytes_of(read_.axes[0].pitch), position = bytes_of(read_.channels);
  const size_t left = static_cast<size_t>(read_.axes[1].first - across.first) * position;
  const size_t inside = static_cast<size_t>(across.size) * position;
  const bool together = across.pitch == read_.channels;
  for (int64_t i = lines.begin; i < lines.end; ++i, to += whole) {
    const int64_t image = i / of_image, y = i % of_image - above;
    if (!down.inside(y)) {
      std::memset(to, 0, whole);
      continue;
    }
    const char* from =
        static_cast<const char*>(images) + bytes_of(image * stored_.image_pitch + y * down.pitch);
    std::memset(to, 0, left);
    std::memset(to + left + inside, 0, whole - left - inside);
    const size_t each = together ? inside : position;
    for (size_t at = 0; at < inside; at += each, from += bytes_of(across.pitch))
      std::memcpy(to + left + at, from, each);
  }
}

void CubeWindows::copy_floats(const void* images, const vector::ByteMap* bytes, Lines lines,
                              float* to) const noexcept {
  const auto& [down, across] = stored_.axes;
  const int64_t above = read_.axes[0].first - down.first;
  const int64_t left = (read_.axes[1].first - across.first) * read_.channels;
  const int64_t inside = across.size * read_.channels, whole = read_.axes[0].pitch;
  const int64_t right = whole - left - inside;
  const bool plain = widen_ == nullptr && bytes == nullptr && across.pitch == read_.channels;
  const bool is_short =
      plain && inside >= kChunk && inside <= kShort && left <= kChunk && right <= kChunk;
  const int64_t of_image = read_.axes[0].size;
  int64_t image = lines.begin / of_image, y = lines.begin % of_image - above;
  for (int64_t i = lines.begin; i < lines.end; ++i, to += whole) {
    const auto at = static_cast<size_t>(image * stored_.image_pitch + y * down.pitch);
    if (!down.inside(y)) {
      std::fill_n(to, whole, 0.0f);
    } else if (is_short) {
      copy_short_line(static_cast<const float*>(images) + at, left, inside, right, to);
    } else {
      std::fill_n(to, left, 0.0f);
      std::fill_n(to + left + inside, right, 0.0f);
      copy_line(static_cast<const char*>(images) + at * size_of(dtype_), bytes, to + left);
    }
    if (++y < of_image - above) continue;
    y = -above;
    ++image;
  }
}

// The positions of one line that are there, all at once where nothing lies between them.
void CubeWindows::copy_line(const char* from, const vector::ByteMap* bytes,
                            float* to) const noexcept {
  const Axis& across = stored_.axes[1];
  const bool together = across.pitch == read_.channels;
  const int64_t parts = together ? 1 : across.size;
  const int64_t count = together ? across.size * read_.channels : read_.channels;
  VectorCall widen;
  widen.n = static_cast<size_t>(count);
  const size_t step = static_cast<size_t>(across.pitch) * size_of(dtype_);
  for (int64_t part = 0; part < parts; ++part, from += step, to += count) {
    if (round_ != nullptr) {
      round_line(from, static_cast<size_t>(count), to);
    } else if (widen_ != nullptr) {
      widen.dst = to;
      widen.src[0] = from;
      widen_(widen);
    } else if (bytes != nullptr) {
      for (int64_t e = 0; e < count; ++e) to[e] = bytes->table[static_cast<uint8_t>(from[e])];
    } else {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    }
  }
}

void CubeWindows::round_line(const char* from, size_t count, float* to) const noexcept {
  uint16_t rounded[512];
  const auto* elements = reinterpret_cast<const float*>(from);
  for (size_t at = 0; at < count; at += std::size(rounded)) {
    VectorCall call;
    call.n = std::min(std::size(rounded), count - at);
    call.src[0] = elements + at;
    call.dst = rounded;
    round_(call);
    call.src[0] = rounded;
    call.dst = to + at;
    widen_(call);
  }
}

void CubeWindows::list_rows(size_t first, size_t count, int64_t first_line, size_t* places) const {
  transposed_ ? list_columns(first, count, places) : list_windows(first, count, first_line, places);
}

void CubeWindows::list_windows(size_t first, size_t count, int64_t first_line,
                               size_t* places) const {
  const auto& [down, across] = read_.axes;
  const auto row = static_cast<int64_t>(first);
  const int64_t of_image = down.windows * across.windows, before = first_line * down.pitch;
  int64_t image = row / of_image, i = row % of_image / across.windows, j = row % across.windows;
  const auto step = static_cast<size_t>(across.step * across.pitch);
  for (size_t r = 0; r < count;) {
    const auto place =
        static_cast<size_t>(image * read_.image_pitch + down.position(i, 0) * down.pitch +
                            across.position(j, 0) * across.pitch - before);
    const size_t of_line = std::min(static_cast<size_t>(across.windows - j), count - r);
    for (size_t k = 0; k < of_line; ++k) places[r + k] = place + k * step;
    r += of_line;
    j = 0;
    if (++i < down.windows) continue;
    i = 0;
    ++image;
  }
}

size_t CubeWindows::place_of_line(size_t line, int64_t first_line) const {
  const auto& [down, across] = read_.axes;
  const auto number = static_cast<int64_t>(line), image = number / down.windows;
  const int64_t i = number - image * down.windows;
  return static_cast<size_t>(image * read_.image_pitch +
                             (down.position(i, 0) - first_line) * down.pitch +
                             across.position(0, 0) * across.pitch);
}

void CubeWindows::list_columns(size_t first, size_t count, size_t* places) const {
  const auto& [down, across] = read_.axes;
  const auto column = static_cast<int64_t>(first);
  const int64_t line = read_.line();
  int64_t tap = column / line;
  int64_t beside = column % line / read_.channels, channel = column % read_.channels;
  for (size_t c = 0; c < count; ++c) {
    places[c] = static_cast<size_t>(tap * down.tap_step * down.pitch +
                                    beside * across.tap_step * across.pitch + channel);
    if (++channel < read_.channels) continue;
    channel = 0;
    if (++beside < across.taps) continue;
    beside = 0;
    ++tap;
  }
}

size_t CubeWindows::k_step() const { return transposed_ ? line_step() : 1; }

size_t CubeWindows::list_runs(size_t k0, size_t length, int64_t first_line, CubeRun* runs) const {
  if (transposed_) return list_runs_of_windows(k0, length, first_line, runs);
  const auto of_run = static_cast<size_t>(read_.channels);
  size_t count = 0;
  for (size_t k = k0; k < k0 + length;) {
    const size_t run = std::min(of_run - k % of_run, k0 + length - k);
    size_t place = 0;
    list_columns(k, 1, &place);
    append_run({place, k - k0, run}, 1, runs, &count);
    k += run;
  }
  return count;
}

size_t CubeWindows::list_runs_of_windows(size_t k0, size_t length, int64_t first_line,
                                         CubeRun* runs) const {
  const auto& [down, across] = read_.axes;
  const auto first = static_cast<int64_t>(k0), end = first + static_cast<int64_t>(length);
  const int64_t row = first / across.windows;
  int64_t image = row / down.windows, i = row % down.windows, j = first % across.windows;
  size_t count = 0;
  for (int64_t k = first; k < end; j = 0) {
    const int64_t run = std::min(across.windows - j, end - k);
    const int64_t place = image * read_.image_pitch +
                          (down.position(i, 0) - first_line) * down.pitch +
                          across.position(j, 0) * across.pitch;
    append_run(
        {static_cast<size_t>(place), static_cast<size_t>(k - first), static_cast<size_t>(run)},
        k_step(), runs, &count);
    k += run;
    if (++i < down.windows) continue;
    i = 0;
    ++image;
  }
  return count;
}

}  // namespace keel
