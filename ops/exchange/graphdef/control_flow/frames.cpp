#include "keel/ops/exchange/graphdef/control_flow/frames.h"

#include <map>
#include <numeric>
#include <utility>

namespace keel::graphdef {

namespace {

class FrameFinder {
 public:
  FrameFinder(FlowGraph& flow, Refusals& refusals) : flow_(flow), refusals_(refusals) {
    frames_.emplace_back();
  }

  std::vector<Frame> find() {
    std::vector<uint32_t> all(flow_.nodes.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<uint32_t> order = flow_.topological_order(all, refusals_);
    if (order.size() < all.size()) return {};
    for (const uint32_t node : order) place(node);
    for (const uint32_t node : all) {
      check_edges(node);
      list(node);
    }
    check_next_iterations();
    return std::move(frames_);
  }

 private:
  // A node's frame is that of all that it reads, but for NextIteration, which comes later.
  void place(uint32_t node) {
    FlowNode& placed = flow_[node];
    uint32_t frame = 0;
    bool is_first = true;
    const auto meet = [&](uint32_t read) {
      if (flow_[read].kind == FlowKind::kNextIteration) return;
      const uint32_t other = flow_[read].frame;
      if (!is_first && other != frame)
        refusals_.add(flow_.name(node),
                      "reads values of two frames, " + quoted(frame) + " and " + quoted(other));
      frame = other;
      is_first = false;
    };
    for (const FlowValue& input : placed.inputs) meet(input.node);
    for (const uint32_t control : placed.controls) meet(control);
    if (placed.kind == FlowKind::kEnter) frame = entered(node, frame);
    if (placed.kind == FlowKind::kExit) frame = left(node, frame);
    placed.frame = frame;
  }

  uint32_t entered(uint32_t node, uint32_t from) {
    const std::string& name = flow_[node].definition.attributes.at("frame_name").strings.front();
    const auto [entry, is_new] = index_.emplace(std::make_pair(from, name), frames_.size());
    if (is_new) {
      frames_.push_back({.name = name, .parent = from, .depth = frames_[from].depth + 1});
      if (frames_.back().depth == kDeepestNesting + 1)
        refusals_.add(flow_.name(node), "is nested deeper than " + std::to_string(kDeepestNesting));
    }
    return entry->second;
  }

  uint32_t left(uint32_t node, uint32_t from) {
    const FlowValue input = flow_[node].inputs.front();
    if (from == 0) {
      refusals_.add(flow_.name(node), "Exit outside of a frame");
    } else if (flow_[input.node].kind != FlowKind::kSwitch || input.port != 0) {
      refusals_.add(flow_.name(node), "Exit without a Switch, whose first output it has to read");
    }
    return frames_[from].parent;
  }

  void check_edges(uint32_t node) {
    const FlowNode& reader = flow_[node];
    for (const FlowValue& input : reader.inputs) {
      const FlowNode& read = flow_[input.node];
      if (read.kind == FlowKind::kNextIteration) {
        is_read_[input.node] = true;
        if (reader.kind != FlowKind::kMerge)
          refusals_.add(flow_.name(input.node), "NextIteration without a Merge: it is read by '" +
                                                    flow_.name(node) + "', which is none");
        else if (read.frame != reader.frame)
          refusals_.add(flow_.name(input.node), "NextIteration of frame " + quoted(read.frame) +
                                                    " into frame " + quoted(reader.frame));
      }
    }
    for (const uint32_t control : reader.controls)
      if (flow_[control].kind == FlowKind::kNextIteration)
        refusals_.add(flow_.name(node), "comes after the NextIteration '" + flow_.name(control) +
                                            "', which is of another iteration");
    if (reader.frame != 0) return;
    if (reader.kind == FlowKind::kNextIteration)
      refusals_.add(flow_.name(node), "NextIteration outside of a frame");
    if (reader.kind == FlowKind::kLoopCond)
      refusals_.add(flow_.name(node), "LoopCond outside of a frame");
  }

  void check_next_iterations() {
    for (uint32_t node = 0; node < flow_.nodes.size(); ++node)
      if (flow_[node].kind == FlowKind::kNextIteration && !is_read_[node])
        refusals_.add(flow_.name(node), "NextIteration without a Merge");
  }

  void list(uint32_t node) {
    const FlowNode& listed = flow_[node];
    if (listed.kind == FlowKind::kEnter) {
      frames_[listed.frame].enters.push_back(node);
      return;
    }
    frames_[listed.frame].members.push_back(node);
    if (listed.kind == FlowKind::kExit)
      frames_[flow_[listed.inputs.front().node].frame].exits.push_back(node);
  }

  std::string quoted(uint32_t frame) const {
    return frame == 0 ? "that of the graph" : "'" + frames_[frame].name + "'";
  }

  FlowGraph& flow_;
  Refusals& refusals_;
  std::vector<Frame> frames_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> index_;
  std::vector<bool> is_read_ = std::vector<bool>(flow_.nodes.size());
};

}  // namespace

std::vector<Frame> find_frames(FlowGraph& flow, Refusals& refusals) {
  return FrameFinder(flow, refusals).find();
}

}  // namespace keel::graphdef
