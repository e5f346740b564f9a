// A frame made a node While in the frame around it. One thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_LOOPS_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_LOOPS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/ops/exchange/graphdef/control_flow/bodies.h"
#include "keel/ops/exchange/graphdef/control_flow/frames.h"
#include "keel/ops/exchange/graphdef/control_flow/graph.h"
#include "keel/ops/exchange/graphdef/control_flow/region.h"

namespace keel::graphdef {

class LoopConverter {
 public:
  // REQUIRES that the frames in `frame` are converted.
  LoopConverter(FlowGraph& flow, Frame& frame, Frame& parent, BodyLibrary& library,
                Refusals& refusals)
      : flow_(flow), frame_(frame), parent_(parent), library_(library), refusals_(refusals) {}

  // Returns false where something was refused.
  bool convert();

 private:
  struct Variable {
    uint32_t argument = 0;
    FlowValue start;
    FlowValue next;  // once the region is converted
    uint32_t next_iteration = 0;
  };

  void find_condition();
  void find_variable(uint32_t merge);
  void add_index(const Variable& variable, size_t start, size_t next);
  void add_constants();
  void check_region(Region& region);
  void find_exits(const Region& region, Context left);
  uint32_t write_loop();
  void leave(uint32_t loop);

  FlowGraph& flow_;
  Frame& frame_;
  Frame& parent_;
  BodyLibrary& library_;
  Refusals& refusals_;

  uint32_t condition_ = 0;
  std::vector<Variable> variables_;
  std::vector<Variable> indices_;    // of variables whose Merge says where its value came from
  std::vector<Variable> constants_;  // of the loop
  std::vector<size_t> exits_;        // which variable each Exit of the frame hands out
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_LOOPS_H
