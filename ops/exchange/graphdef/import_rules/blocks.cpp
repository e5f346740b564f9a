// Blocks of an image moved into the batch, as dilated convolutions do, or into the channels, and
// back.
#include <numeric>

#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using Ints = std::vector<int64_t>;

// The blocks along the axes behind the batch, and what is put around the images or taken off them.
struct Blocks {
  Ints sizes, low, high;
  int64_t count = 1;
};

Blocks blocks_of(NodeContext& c, const Shape& shape) {
  Blocks blocks;
  blocks.sizes = c.integers(1, "the sizes of the blocks");
  const Ints edges = c.integers(2, "what is put around or taken off");
  const Shape pairs = c.known(2)->shape();
  if (pairs.rank() != 2 || pairs[1] != 2)
    c.refuse("what it puts around or takes off is " + to_string(pairs) + ", where it takes [n, 2]");
  if (edges.size() != 2 * blocks.sizes.size() || shape.rank() < blocks.sizes.size() + 1)
    c.refuse("its operands do not fit");
  constexpr int64_t kMost = 1 << 16;
  for (size_t i = 0; i < blocks.sizes.size(); ++i) {
    if (blocks.sizes[i] < 1 || blocks.sizes[i] > kMost || edges[2 * i] < 0 || edges[2 * i + 1] < 0)
      c.refuse("a size of its blocks or edges is out of range");
    blocks.low.push_back(edges[2 * i]);
    blocks.high.push_back(edges[2 * i + 1]);
    blocks.count *= blocks.sizes[i];
    if (blocks.count > kMost) c.refuse("its blocks have more than 65536 elements");
  }
  for (size_t axis = 1; axis < shape.rank(); ++axis)
    if (shape[axis] < 0) c.refuse("its dimensions behind the batch are not known before the run");
  return blocks;
}

// A number for each axis of x: those of the blocked axes, 0 elsewhere.
Ints along_blocks(const Ints& numbers, size_t rank) {
  Ints all(rank, 0);
  for (size_t i = 0; i < numbers.size(); ++i) all[i + 1] = numbers[i];
  return all;
}

Values space_to_batch(NodeContext& c) {
  Value x = c.in(0);
  const size_t rank = x.shape({}).rank();
  const Blocks blocks = blocks_of(c, x.shape({}));
  x = pad(x, along_blocks(blocks.low, rank), along_blocks(blocks.high, rank), 0, {});
  const Shape padded = x.shape({});
  const size_t count = blocks.sizes.size();
  Ints split{-1}, order, joined{-1};
  for (size_t i = 0; i < count; ++i) {
    const int64_t size = blocks.sizes[i], dim = padded[i + 1];
    if (dim % size != 0) c.refuse("its images are no multiple of its blocks");
    split.push_back(dim / size);
    split.push_back(size);
    joined.push_back(dim / size);
    order.push_back(static_cast<int64_t>(2 * i + 2));
  }
  order.push_back(0);
  for (size_t i = 0; i < count; ++i) order.push_back(static_cast<int64_t>(2 * i + 1));
  for (size_t axis = count + 1; axis < rank; ++axis) {
    order.push_back(static_cast<int64_t>(axis + count));
    split.push_back(padded[axis]);
    joined.push_back(padded[axis]);
  }
  if (padded[0] >= 0) split[0] = padded[0], joined[0] = padded[0] * blocks.count;
  return {reshape(transpose(reshape(x, Shape(split), {}), order, {}), Shape(joined), {})};
}

Values batch_to_space(NodeContext& c) {
  Value x = c.in(0);
  const Shape shape = x.shape({});
  const Blocks blocks = blocks_of(c, shape);
  const size_t count = blocks.sizes.size();
  if (shape[0] >= 0 && shape[0] % blocks.count != 0)
    c.refuse("its batch is no multiple of its blocks");
  const int64_t batch = shape[0] < 0 ? -1 : shape[0] / blocks.count;
  Ints split = blocks.sizes, order{static_cast<int64_t>(count)}, joined{batch};
  Ints end(shape.rank(), kToEnd);
  split.push_back(batch);
  for (size_t axis = 1; axis < shape.rank(); ++axis) split.push_back(shape[axis]);
  for (size_t i = 0; i < count; ++i) {
    order.push_back(static_cast<int64_t>(count + 1 + i));
    order.push_back(static_cast<int64_t>(i));
    joined.push_back(shape[i + 1] * blocks.sizes[i]);
    end[i + 1] = joined.back() - blocks.high[i];
    if (end[i + 1] < blocks.low[i]) c.refuse("it takes off more than there is");
  }
  for (size_t axis = count + 1; axis < shape.rank(); ++axis) {
    order.push_back(static_cast<int64_t>(axis + count));
    joined.push_back(shape[axis]);
  }
  x = reshape(transpose(reshape(x, Shape(split), {}), order, {}), Shape(joined), {});
  return {slice(x, along_blocks(blocks.low, shape.rank()), end, {}, {})};
}

// ---- channels

struct ChannelBlocks {
  int64_t size;
  Shape shape;  // [batch, height, width, channels]
};
ChannelBlocks channel_blocks(NodeContext& c, const Value& x) {
  c.require_rank(x, 4, 4, "its images are");
  c.choice("data_format", {"NHWC"});
  const int64_t size = c.attribute("block_size", int64_t{0});
  if (size < 1 || size > 1024) c.refuse("its block_size is out of range");
  const Shape shape = x.shape({});
  for (const size_t axis : {1u, 2u, 3u})
    if (shape[axis] < 0) c.refuse("its dimensions behind the batch are not known before the run");
  return {size, shape};
}

Values depth_to_space(NodeContext& c) {
  const Value x = c.in(0);
  const auto [k, s] = channel_blocks(c, x);
  if (s[3] % (k * k) != 0) c.refuse("its channels are no multiple of its blocks");
  const int64_t channels = s[3] / (k * k);
  const Value split = reshape(x, Shape{s[0], s[1], s[2], k, k, channels}, {});
  return {reshape(transpose(split, {0, 1, 3, 2, 4, 5}, {}),
                  Shape{s[0], s[1] * k, s[2] * k, channels}, {})};
}

Values space_to_depth(NodeContext& c) {
  const Value x = c.in(0);
  const auto [k, s] = channel_blocks(c, x);
  if (s[1] % k != 0 || s[2] % k != 0) c.refuse("its images are no multiple of its blocks");
  const Value split = reshape(x, Shape{s[0], s[1] / k, k, s[2] / k, k, s[3]}, {});
  return {reshape(transpose(split, {0, 1, 3, 2, 4, 5}, {}),
                  Shape{s[0], s[1] / k, s[2] / k, k * k * s[3]}, {})};
}

}  // namespace

void register_graphdef_blocks(OpRules& rules) {
  rules.add("SpaceToBatchND", space_to_batch);
  rules.add("BatchToSpaceND", batch_to_space);
  rules.add("DepthToSpace", depth_to_space);
  rules.add("SpaceToDepth", space_to_depth);
}

}  // namespace keel::graphdef
