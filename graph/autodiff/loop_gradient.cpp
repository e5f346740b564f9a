#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/graph/autodiff/agreed_attributes.h"
#include "keel/graph/autodiff/body_gradient.h"
#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/autodiff/flow.h"
#include "keel/graph/autodiff/neutral_fill.h"
#include "keel/graph/autodiff/row_stack.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/loop_count.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Sums and products of sizes; what does not fit in 64 bits is kBeyond.
constexpr int64_t kBeyond = std::numeric_limits<int64_t>::max();

int64_t sum_or_beyond(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kBeyond : sum;
}
int64_t product_or_beyond(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kBeyond : product;
}

// A number of iterations that the graph knows, or that only the run does.
struct Trips {
  int64_t most = 0;
  Value count;  // invalid where it is `most`
};

class LoopGradient {
 public:
  explicit LoopGradient(const BuildContext& c)
      : c_(c),
        attributes_(c.as<WhileAttributes>()),
        condition_(*c.bodies[0]),
        body_(*c.bodies[1]),
        variables_(body_.outputs().size()),
        of_inputs_(body_.inputs().size()) {}

  Values run() {
    Values flows(c_.inputs.size());
    find_paths();
    if (carried_.empty()) return flows;
    require_countable();
    Values gradients = seeds();
    if (trips_.most > 0) {
      std::vector<size_t> xs = carried_;
      xs.insert(xs.end(), captured_.begin(), captured_.end());
      const BodyGradient gradient(body_, carried_, xs, of_inputs_, c_.graph.label(), c_.site);
      back_ = gradient.graph();
      needed_ = variables_read(*back_, back_->outputs());
      rerun_ = variables_to_rerun();
      choose_segments();
      keep_products(gradient);
      const Node* checkpointed = needed_.empty() && kept_.empty() ? nullptr : &record();
      if (attributes_.trip_count < 0) {
        trips_.count = checkpointed != nullptr ? checkpointed->output(0) : c_.outputs[0];
      }
      const Values stacks =
          checkpointed == nullptr ? Values() : outputs_from(*checkpointed, variables_);
      gradients = every_ == 1 ? run_back(c_.graph, gradients, stacks, trips_, Value())
                              : run_segments(gradients, stacks);
    }
    for (size_t i = 0; i < carried_.size(); ++i) flows[carried_[i]] = gradients[i];
    for (size_t i = 0; i < captured_.size(); ++i) {
      flows[captured_[i]] = gradients[carried_.size() + i];
    }
    return flows;
  }

 private:
  // ---- what is to be done

  // Variables are on the way where they change with an x and the result changes with them.
  void find_paths() {
    std::vector<bool> useful;
    for (const Value& gradient : c_.output_gradients) useful.push_back(gradient.valid());
    useful = useful_in_loop(body_, useful);
    const std::vector<bool> varied = varied_in_loop(body_, c_.wanted);
    for (size_t i = 1; i < variables_; ++i) {
      if (useful[i] && varied[i] && is_float(body_.outputs()[i].dtype())) carried_.push_back(i);
    }
    Values ys;
    for (const size_t i : carried_) ys.push_back(body_.outputs()[i]);
    const ValueSet sources = sources_of(body_, ys);
    meet_users(body_, sources, of_inputs_);
    for (size_t i = variables_; i < c_.inputs.size(); ++i) {
      if (c_.wanted[i] && sources.contains(body_.inputs()[i])) captured_.push_back(i);
    }
  }

  void require_countable() {
    if (!is_count(c_.inputs[0], 0) || !counts_up(body_)) {
      fail("count", "a count from 0 up by 1, as while_loop() makes it", "another", "");
    }
    trips_.most = attributes_.trip_count >= 0 ? attributes_.trip_count : attributes_.max_trips;
    if (trips_.most < 0) {
      fail("gradient", "a bound on the number of iterations", "none",
           "give while_loop a trip_count or max_trips, or cut the path with stop_gradient");
    }
  }

  [[noreturn]] void fail(const std::string& argument, const std::string& expected,
                         const std::string& got, const std::string& fix) const {
    throw Error({.op = "while_loop",
                 .argument = argument,
                 .expected = expected,
                 .got = got,
                 .fix = fix,
                 .site = c_.site});
  }

  // Returns the gradients that the way back begins with: of the last variables, and sums for the
  // captures.
  Values seeds() const {
    Values seeds;
    for (const size_t i : carried_) {
      const Value given = c_.output_gradients[i];
      seeds.push_back(given.valid() ? given : zeros(i));
    }
    for (const size_t i : captured_) seeds.push_back(zeros(i));
    return seeds;
  }
  Value zeros(size_t input) const {
    const LabelScope label(c_.graph, of_inputs_[input].label_in(c_.graph.label()));
    return filled(c_.graph, body_.inputs()[input].type(), 0, c_.site);
  }

  std::vector<size_t> variables_read(const Graph& graph, const Values& results) const {
    const std::vector<bool> read = inputs_read(graph, results);
    std::vector<size_t> variables;
    for (size_t i = 1; i < variables_; ++i) {
      if (read[i]) variables.push_back(i);
    }
    return variables;
  }

  // Returns what must be known of one turn to compute the needed variables of the turns behind it.
  std::vector<size_t> variables_to_rerun() const {
    std::vector<size_t> rerun = needed_;
    for (;;) {
      std::vector<size_t> all = variables_read(body_, next_of(rerun));
      all.insert(all.end(), rerun.begin(), rerun.end());
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      if (all.size() == rerun.size()) return rerun;
      rerun = all;
    }
  }

  Values next_of(const std::vector<size_t>& variables) const {
    Values next;
    for (const size_t i : variables) next.push_back(body_.outputs()[i]);
    return next;
  }

  // ---- memory

  int64_t row_bytes(const std::vector<size_t>& variables) const {
    int64_t bytes = 0;
    for (const size_t i : variables) {
      const Type& type = body_.outputs()[i].type();
      const auto own = static_cast<int64_t>(type.shape.num_bytes(type.dtype));
      bytes = checked_add(bytes, own, "while_loop gradient");
    }
    return bytes;
  }
  int64_t kept_bytes(int64_t every) const {
    const int64_t rows = divide_up(trips_.most, every);
    const int64_t whole = product_or_beyond(rows, row_bytes(every == 1 ? needed_ : rerun_));
    if (every == 1) return whole;
    return sum_or_beyond(whole, product_or_beyond(every, row_bytes(needed_)));
  }

  // Chooses the k of recompute_every: as given, or the smallest that fits into the budget.
  void choose_segments() {
    every_ = std::clamp<int64_t>(attributes_.recompute_every, 1, trips_.most);
    if (needed_.empty()) every_ = 1;
    const int64_t budget = attributes_.memory_budget_bytes;
    int64_t least = kept_bytes(every_);
    if (least == kBeyond) {
      fail(attributes_.trip_count >= 0 ? "trip_count" : "max_trips",
           "so few iterations that the bytes which the gradient keeps of them fit in 64 bits",
           std::to_string(trips_.most), "lower it, or cut the path with stop_gradient");
    }
    if (budget < 0 || least <= budget) return;
    int64_t best = every_;
    const bool free = attributes_.recompute_every < 0;
    // Longer segments than this take more than the shorter ones already tried.
    const int64_t row = std::max<int64_t>(1, row_bytes(needed_));
    // Beyond 65,536, lengths are tried in steps of a 65,536th of themselves: to try each one would
    // take minutes for a loop of 2^58 iterations.
    for (int64_t k = 2; free && k <= trips_.most && k <= least / row; k += 1 + (k >> 16)) {
      const int64_t bytes = kept_bytes(k);
      if (bytes < least) {
        least = bytes;
        best = k;
      }
      if (bytes > budget) continue;
      every_ = k;
      return;
    }
    fail("memory_budget_bytes",
         "at least " + std::to_string(least) + " bytes for the variables of " +
             std::to_string(trips_.most) + " iterations with recompute_every " +
             std::to_string(best) + (free ? ", the least that is possible" : ""),
         std::to_string(budget),
         std::string("raise memory_budget_bytes") +
             (free ? ", keep fewer or smaller loop variables, or lower the bound on the iterations"
                   : ", or leave recompute_every out so that the best one is chosen"));
  }

  // Results of products are kept as well where each turn is kept, the number of turns is known, and
  // the budget has room.
  void keep_products(const BodyGradient& gradient) {
    if (every_ != 1 || attributes_.recompute_every > 1 || attributes_.trip_count < 0) return;
    Values made = gradient.made_by_products();
    std::erase_if(made, [&](const Value& v) { return !changes(v); });
    if (made.empty()) return;
    std::unique_ptr<Graph> back = gradient.graph(made);
    // Values that only led to another product that is kept are not read any more.
    const std::vector<bool> read = inputs_read(*back, back->outputs());
    const size_t first = read.size() - made.size();
    for (size_t i = made.size(); i-- > 0;) {
      if (!read[first + i]) made.erase(made.begin() + static_cast<std::ptrdiff_t>(i));
    }
    back = gradient.graph(made);
    const std::vector<size_t> needed = variables_read(*back, back->outputs());
    int64_t row = row_bytes(needed);
    for (const Value& v : made) {
      row = sum_or_beyond(row, static_cast<int64_t>(v.shape().num_bytes(v.dtype())));
    }
    const int64_t bytes = product_or_beyond(trips_.most, row);
    const int64_t budget = attributes_.memory_budget_bytes;
    if (bytes == kBeyond || (budget >= 0 && bytes > budget)) return;
    kept_ = std::move(made);
    back_ = std::move(back);
    needed_ = needed;
  }
  // Returns whether a value of the body may be another one in each turn.
  bool changes(const Value& v) const {
    const std::vector<bool> read = inputs_read(body_, {v});
    return std::find(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(variables_), true) !=
           read.begin() + static_cast<std::ptrdiff_t>(variables_);
  }

  // ---- loops

  Value number(Graph& graph, int64_t n) const {
    return graph.constant(Tensor::scalar<int64_t>(n), c_.site);
  }
  Value compute(const char* op, Operand a, Operand b) const {
    return emit(op, {a.at(c_.site), b.at(c_.site)}, c_.site);
  }
  // A turn that reads one row of a value gives it a gradient that is 0 elsewhere: only the row is
  // added, not the whole in each turn.
  Value accumulated(size_t input, const Value& sum, const Value& gradient) const {
    const Node& node = gradient.node();
    if (!node.has(kAddsTo) || filling_number(node.input(0)) != 0.0) {
      const LabelScope label(sum.graph(), of_inputs_[input].label_in(sum.graph().label()));
      return compute("add", sum, gradient);
    }
    Values inputs(node.inputs().begin(), node.inputs().end());
    inputs[0] = sum;
    const LabelScope label(sum.graph(), node);
    return sum.graph().add(node.op(), inputs, node.attributes(), node.site()).output();
  }

  // Adds a loop of so many iterations; the body gets its graph, its count and the variables.
  using Step = std::function<Values(Graph&, Value, const Values&)>;
  Values repeat(const Trips& trips, const Values& init, const Step& step) const {
    const auto condition = [&](const Values& v) {
      Graph& graph = v[0].graph();
      if (!trips.count.valid()) return graph.constant(Tensor::full(boolean, {}, 1), c_.site);
      return compute("less", graph.iteration(), trips.count);
    };
    const auto body = [&](const Values& v) {
      return step(v[0].graph(), v[0].graph().iteration(), v);
    };
    const WhileAttributes attributes{.trip_count = trips.count.valid() ? -1 : trips.most,
                                     .max_trips = trips.count.valid() ? trips.most : -1};
    const std::vector<Operand> operands(init.begin(), init.end());
    return outputs_from(add_while_loop(operands, condition, body, attributes, c_.site), 1);
  }

  static Values outputs_from(const Node& node, size_t first) {
    Values outputs;
    for (size_t i = first; i < node.types().size(); ++i) outputs.push_back(node.output(i));
    return outputs;
  }

  // Returns the body's inputs: the count, the variables (invalid where not given), the captures.
  Values body_arguments(Value count, const std::vector<size_t>& which, const Values& values) const {
    Values arguments(c_.inputs.begin(), c_.inputs.end());
    arguments[0] = count;
    for (size_t i = 1; i < variables_; ++i) arguments[i] = Value();
    for (size_t i = 0; i < which.size(); ++i) arguments[which[i]] = values[i];
    return arguments;
  }

  std::vector<RowStack> stacks_of(const std::vector<size_t>& variables) const {
    std::vector<RowStack> stacks;
    for (const size_t i : variables)
      stacks.emplace_back(body_.outputs()[i].type(), c_.site, of_inputs_[i]);
    return stacks;
  }
  std::vector<RowStack> stacks_of_kept() const {
    std::vector<RowStack> stacks;
    for (const Value& v : kept_) {
      AgreedAttributes own;
      own.meet(v.node().label().attributes);
      stacks.emplace_back(v.type(), c_.site, std::move(own));
    }
    return stacks;
  }

  std::vector<size_t> all_variables() const {
    std::vector<size_t> all;
    for (size_t i = 1; i < variables_; ++i) all.push_back(i);
    return all;
  }

  // Builds the forward loop again, with stacks of what is kept behind its variables.
  const Node& record() {
    const std::vector<size_t>& kept = every_ == 1 ? needed_ : rerun_;
    const std::vector<RowStack> stacks = stacks_of(kept), behind = stacks_of_kept();
    const std::vector<size_t> all = all_variables();
    std::vector<Operand> init(c_.inputs.begin() + 1,
                              c_.inputs.begin() + static_cast<std::ptrdiff_t>(variables_));
    for (const auto* list : {&stacks, &behind}) {
      for (const RowStack& s : *list)
        init.emplace_back(s.make(c_.graph, divide_up(trips_.most, every_)));
    }

    const auto condition = [&](const Values& v) {
      Graph& graph = v[0].graph();
      return inline_body(condition_, condition_.outputs(),
                         body_arguments(graph.iteration(), all, v), graph)[0];
    };
    const auto body = [&](const Values& v) {
      Graph& graph = v[0].graph();
      const Value count = graph.iteration();
      Value row = count;
      Value first;
      if (every_ > 1) {
        row = compute("div", count, every_);
        first = compute("equal", compute("mod", count, every_), 0);
      }
      // Kept before the body comes, so that it can compute the next values in their places.
      Values written;
      for (size_t i = 0; i < kept.size(); ++i) {
        written.push_back(stacks[i].write(v[all.size() + i], row, v[kept[i] - 1], first));
      }
      Values results = next_of(all);
      results.insert(results.end(), kept_.begin(), kept_.end());
      Values next = inline_body(body_, results, body_arguments(count, all, v), graph);
      for (size_t i = 0; i < behind.size(); ++i) {
        Value& made = next[all.size() + i];
        made = behind[i].write(v[all.size() + stacks.size() + i], row, made, first);
      }
      next.insert(next.begin() + static_cast<std::ptrdiff_t>(all.size()), written.begin(),
                  written.end());
      return next;
    };
    WhileAttributes attributes = attributes_;
    attributes.forward_of = c_.outputs[0].node_id();
    return add_while_loop(init, condition, body, attributes, c_.site);
  }

  // Returns the gradients carried back through the turns whose variables the stacks hold, the last
  // first. `offset` is the count of the first of these turns; invalid: 0.
  Values run_back(Graph& graph, const Values& gradients, const Values& kept, const Trips& trips,
                  Value offset) const {
    const std::vector<RowStack> stacks = stacks_of(needed_), behind = stacks_of_kept();
    const Value count = trips.count.valid() ? trips.count : number(graph, trips.most);
    return repeat(trips, gradients, [&](Graph& own, Value turn, const Values& v) {
      const Value row = compute("sub", compute("sub", count, 1), turn);
      Values variables;
      for (size_t i = 0; i < needed_.size(); ++i) {
        variables.push_back(stacks[i].read(kept[i], row));
      }
      const Value iteration = offset.valid() ? compute("add", offset, row) : row;
      Values arguments = body_arguments(iteration, needed_, variables);
      arguments.insert(arguments.end(), v.begin(),
                       v.begin() + static_cast<std::ptrdiff_t>(carried_.size()));
      for (size_t i = 0; i < behind.size(); ++i) {
        arguments.push_back(behind[i].read(kept[needed_.size() + i], row));
      }
      Values next = inline_body(*back_, back_->outputs(), arguments, own);
      for (size_t i = 0; i < captured_.size(); ++i) {
        Value& sum = next[carried_.size() + i];
        sum = accumulated(captured_[i], v[carried_.size() + i], sum);
      }
      return next;
    });
  }

  // Does the same by segments of `every_` turns, of which `kept` holds the first's variables.
  Values run_segments(const Values& gradients, const Values& kept) const {
    Trips segments{divide_up(trips_.most, every_), Value()};
    const Value count = trips_.count.valid() ? trips_.count : number(c_.graph, trips_.most);
    if (trips_.count.valid()) {
      segments.count = compute("div", compute("add", count, every_ - 1), every_);
    }
    const Value segment_count =
        segments.count.valid() ? segments.count : number(c_.graph, segments.most);
    const std::vector<RowStack> stacks = stacks_of(rerun_);
    return repeat(segments, gradients, [&](Graph& own, Value turn, const Values& v) {
      const Value segment = compute("sub", compute("sub", segment_count, 1), turn);
      const Value offset = compute("mul", segment, every_);
      Trips trips{every_, Value()};
      if (trips_.count.valid() || trips_.most % every_ != 0) {
        trips.count = compute("minimum", compute("sub", count, offset), every_);
      }
      Values start;
      for (size_t i = 0; i < rerun_.size(); ++i) {
        start.push_back(stacks[i].read(kept[i], segment));
      }
      return run_back(own, v, run_again(own, start, trips, offset), trips, offset);
    });
  }

  // Runs one segment forwards from its first variables: stacks of what the way back needs of it.
  Values run_again(Graph& graph, const Values& start, const Trips& trips, Value offset) const {
    const std::vector<RowStack> stacks = stacks_of(needed_);
    Values init = start;
    for (const RowStack& s : stacks) init.push_back(s.make(graph, trips.most));
    const Values last = repeat(trips, init, [&](Graph& own, Value turn, const Values& v) {
      Values written;
      for (size_t i = 0; i < needed_.size(); ++i) {
        const auto at = std::find(rerun_.begin(), rerun_.end(), needed_[i]) - rerun_.begin();
        written.push_back(
            stacks[i].write(v[rerun_.size() + i], turn, v[static_cast<size_t>(at)], {}));
      }
      const Values arguments = body_arguments(compute("add", offset, turn), rerun_, v);
      Values next = inline_body(body_, next_of(rerun_), arguments, own);
      next.insert(next.end(), written.begin(), written.end());
      return next;
    });
    return Values(last.begin() + static_cast<std::ptrdiff_t>(rerun_.size()), last.end());
  }

  const BuildContext& c_;
  const WhileAttributes& attributes_;
  const Graph& condition_;
  const Graph& body_;
  const size_t variables_;        // with the count
  std::vector<size_t> carried_;   // variables whose gradients are carried back
  std::vector<size_t> captured_;  // inputs whose gradients are added up
  // Keeps for each of the body's inputs what its users on the way agree on.
  std::vector<AgreedAttributes> of_inputs_;
  Trips trips_;
  std::unique_ptr<Graph> back_;  // BodyGradient::graph of carried_ and captured_
  Values kept_;                  // values of the body that it reads, too
  std::vector<size_t> needed_;   // variables that back_ reads
  std::vector<size_t> rerun_;    // variables that decide the needed ones of later turns
  int64_t every_ = 1;
};

}  // namespace

Values gradient_of_while(const BuildContext& context) { return LoopGradient(context).run(); }

}  // namespace keel
