#include "keel/backends/npu/planned/chunk_walk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "keel/backends/common/vector/reductions.h"

namespace keel::npu {

ChunkWalk::ChunkWalk(const WalkedReductions& walked, Core& core, void* const* args)
    : walked_(walked),
      core_(core),
      args_(args),
      accumulator_(accumulator_of(walked.dtype)),
      instructions_(vector::find_reduction(walked.op, walked.dtype)),
      accumulator_rows_(vector::find_reduction(walked.op, accumulator_).rows) {}

int64_t ChunkWalk::run_width() const {
  return walked_.numeric.last_reduced()
             ? static_cast<int64_t>(vector::reduce_run_width(walked_.dtype))
             : 0;
}

// The prices give accumulators four bytes for each element of a tile. Behind a prologue they give
// each operand that is computed two buffers; it never leaves the core, so the second ones have the
// accumulators, of all siblings.
int64_t ChunkWalk::most_results() const {
  const auto each = static_cast<int64_t>(accumulator_size());
  int64_t room = walked_.tile_elements * 4;
  if (walked_.prologue) {
    const auto computed = static_cast<int64_t>(walked_.prologue->outputs().size());
    room = walked_.tile_elements * static_cast<int64_t>(size_of(walked_.dtype)) * computed /
           static_cast<int64_t>(walked_.operands.size());
  }
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): launches do not compute on tokens.
  return std::max<int64_t>(1, (room - run_width() * each) / (2 * each));
}

void ChunkWalk::begin_block(int64_t block, int64_t results) {
  std::vector<Claim> claims;
  const auto tile = static_cast<size_t>(walked_.tile_elements);
  if (walked_.prologue) {
    claims = walked_.prologue->claims(walked_.tile_elements, walked_.buffers);
  } else {
    for (int b = 0; b < walked_.buffers; ++b) {
      claims.push_back({CoreBuffer::kUnified, tile * size_of(walked_.dtype),
                        "input 0, buffer " + std::to_string(b)});
    }
  }
  sums_at_ = claims.size();
  const size_t sums = static_cast<size_t>(results) * accumulator_size();
  for (size_t i = 0; i < walked_.operands.size(); ++i) {
    claims.push_back({CoreBuffer::kUnified, sums, "sums of a chunk"});
    claims.push_back({CoreBuffer::kUnified, sums, "sums of the chunks before"});
    claims.push_back({CoreBuffer::kUnified, static_cast<size_t>(run_width()) * accumulator_size(),
                      "sums along a run"});
  }
  core_.begin_block(block, std::move(claims));
}

BroughtProgram::Place ChunkWalk::place(int buffer) const {
  return {core_, 0, walked_.tile_elements, walked_.buffers, buffer};
}

void ChunkWalk::set_identity(char* accumulators, int64_t count) const {
  const size_t size = accumulator_size();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    instructions_.identity(walked_.op, walked_.dtype, accumulators + i * size);
  }
}

void ChunkWalk::merge(const void* more, void* sums, int64_t count) const {
  const auto n = static_cast<size_t>(count);
  instructions_.merge({more, 1, n, n, sums});
}

void ChunkWalk::reduce_all(int64_t first, int64_t count) {
  for (int64_t chunk = 0; chunk < walked_.numeric.chunks(); ++chunk) {
    reduce(chunk, first, count);
    for (size_t i = 0; i < walked_.operands.size(); ++i) {
      if (chunk == 0)
        std::memcpy(merged(i), sums(i), static_cast<size_t>(count) * accumulator_size());
      else
        merge(sums(i), merged(i), count);
    }
  }
}

void ChunkWalk::reduce(int64_t chunk, int64_t first, int64_t count) {
  const ReducePlan& numeric = walked_.numeric;
  for (size_t i = 0; i < walked_.operands.size(); ++i) set_identity(sums(i), count);
  const int64_t begin = numeric.first_unit(chunk), end = numeric.first_unit(chunk + 1);
  if (numeric.last_reduced()) {
    for (int64_t r = 0; r < count; ++r) {
      const int64_t base = numeric.offset_of_row(first + r);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t elements = numeric.elements_of_unit(unit);
        add({base + numeric.offset_of_unit(unit), elements, r, 0, true});
      }
    }
  } else {
    const int64_t base = numeric.offset_of_row(first / numeric.width()) + first % numeric.width();
    for (int64_t unit = begin; unit < end; ++unit) {
      add({base + numeric.offset_of_unit(unit), count, 0, 0, false});
    }
  }
  end_tiles();
}

// Brings elements to the tile that is being filled, and goes on with the next where it is full.
void ChunkWalk::add(Segment segment) {
  const size_t size = size_of(walked_.dtype);
  while (segment.count > 0) {
    core_.begin_tile(tiles_);
    if (filling_.elements == 0) {
      filling_.number = tiles_;
      if (walked_.prologue)
        walked_.prologue->begin(place(filling_.buffer), walked_.tile_elements);
      else
        core_.refill(static_cast<size_t>(filling_.buffer),
                     static_cast<size_t>(walked_.tile_elements) * size);
    }
    Segment part = segment;
    part.count = std::min(segment.count, walked_.tile_elements - filling_.elements);
    part.ends_run = segment.ends_run && part.count == segment.count;
    if (walked_.prologue) {
      walked_.prologue->bring(place(filling_.buffer), args_, part.offset, part.count,
                              filling_.elements);
    } else {
      std::memcpy(core_.at(static_cast<size_t>(filling_.buffer)) +
                      static_cast<size_t>(filling_.elements) * size,
                  static_cast<const char*>(args_[walked_.operands[0].argument]) +
                      static_cast<size_t>(part.offset) * size,
                  static_cast<size_t>(part.count) * size);
    }
    filling_.segments.push_back(part);
    filling_.elements += part.count;
    segment.offset += part.count;
    segment.count -= part.count;
    (walked_.numeric.last_reduced() ? segment.run_offset : segment.result) += part.count;
    if (filling_.elements == walked_.tile_elements) tile_is_full();
  }
}

// With two buffers the tile ahead of this one is computed now, when both are on the core.
void ChunkWalk::tile_is_full() {
  if (brought_) consume(*brought_);
  brought_ = std::exchange(filling_, {});
  filling_.buffer = walked_.buffers == 1 ? 0 : 1 - brought_->buffer;
  ++tiles_;
  if (walked_.buffers == 1) {
    consume(*brought_);
    brought_.reset();
  }
}

void ChunkWalk::end_tiles() {
  if (filling_.elements > 0) tile_is_full();
  if (brought_) consume(*brought_);
  brought_.reset();
}

void ChunkWalk::consume(const Tile& tile) {
  core_.begin_tile(tile.number);
  if (walked_.prologue)
    status_ |= walked_.prologue->compute(place(tile.buffer), args_, tile.elements);
  for (size_t i = 0; i < walked_.operands.size(); ++i) {
    if (walked_.numeric.last_reduced())
      consume_runs(tile, i);
    else
      consume_rows(tile, elements_of(i, tile), sums(i));
  }
  core_.end_tile();
  core_.begin_tile(tiles_);
}

const char* ChunkWalk::elements_of(size_t reduction, const Tile& tile) const {
  const WalkedReductions::Operand& operand = walked_.operands[reduction];
  if (!walked_.prologue) return core_.at(static_cast<size_t>(tile.buffer));
  if (operand.result) return walked_.prologue->output(place(tile.buffer), *operand.result);
  // The program takes single elements from where they are.
  if (walked_.numeric.elements() == 1) return static_cast<const char*>(args_[operand.argument]);
  return walked_.prologue->input(place(tile.buffer), operand.input);
}

void ChunkWalk::consume_rows(const Tile& tile, const char* elements, char* sums) const {
  const size_t size = size_of(walked_.dtype);
  for (size_t i = 0; i < tile.segments.size();) {
    const Segment& segment = tile.segments[i];
    // Whole rows that follow each other are taken by one instruction.
    size_t rows = 1;
    while (i + rows < tile.segments.size() && tile.segments[i + rows].count == segment.count &&
           tile.segments[i + rows].result == segment.result) {
      ++rows;
    }
    const auto columns = static_cast<size_t>(segment.count);
    instructions_.columns({elements, rows, columns, columns,
                           sums + static_cast<size_t>(segment.result) * accumulator_size()});
    elements += rows * columns * size;
    i += rows;
  }
}

void ChunkWalk::consume_runs(const Tile& tile, size_t reduction) {
  const char* elements = elements_of(reduction, tile);
  for (const Segment& segment : tile.segments) {
    add_run(segment, elements, reduction);
    elements += static_cast<size_t>(segment.count) * size_of(walked_.dtype);
  }
}

// Part of a run, whose elements go to the accumulators along it in turn.
void ChunkWalk::add_run(const Segment& segment, const char* elements, size_t reduction) {
  const int64_t width = run_width();
  char* along = core_.at(sums_at_ + 3 * reduction + 2);
  if (segment.run_offset == 0) set_identity(along, width);
  for (int64_t done = 0; done < segment.count;) {
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): only runs come here, and they have a width.
    const int64_t at = (segment.run_offset + done) % width, left = segment.count - done;
    const int64_t rows = at == 0 && left >= width ? left / width : 1;
    const auto columns = static_cast<size_t>(std::min(width - at, left));
    instructions_.columns({elements + static_cast<size_t>(done) * size_of(walked_.dtype),
                           static_cast<size_t>(rows), columns, columns,
                           along + static_cast<size_t>(at) * accumulator_size()});
    done += rows * static_cast<int64_t>(columns);
  }
  if (!segment.ends_run) return;
  int64_t sum = 0;  // as wide as any accumulator
  const auto all = static_cast<size_t>(width);
  accumulator_rows_({along, 1, all, all, &sum});
  merge(&sum, sums(reduction) + static_cast<size_t>(segment.result) * accumulator_size(), 1);
}

}  // namespace keel::npu
