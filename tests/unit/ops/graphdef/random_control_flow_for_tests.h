// Random graphs with control flow of version 1, made the way TensorFlow's tf.cond and tf.while_loop
// make them: values from outside come through a Switch in a branch and through a constant Enter in
// a loop. Conditionals and loops are nested in each other; some values nobody reads.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_RANDOM_CONTROL_FLOW_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_RANDOM_CONTROL_FLOW_FOR_TESTS_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/graphdef/graph_arithmetic_for_tests.h"

namespace keel_test {

struct RandomControlFlowOptions {
  bool indices = true;  // some second outputs of Merges are read
  bool cases = true;    // some Merges have three inputs
  // Constants in a branch are made outside of it, too: TensorFlow.js looks at no edge that only
  // orders, so that they would be there when the branch is not taken.
  bool constants_outside = false;
  size_t most_nodes = 250;  // from which on nothing new is nested
};

class RandomControlFlow {
 public:
  RandomControlFlow(uint64_t seed, const RandomControlFlowOptions& options)
      : random_(seed), options_(options) {
    contexts_.emplace_back();
    add_inputs();
    fill(3 + below(6));
    if (conditionals_ == 0) make_conditional();
    if (loops_ == 0) make_loop();
    choose_fetches();
    if (below(2) == 0) std::shuffle(graph.nodes.begin(), graph.nodes.end(), random_);
  }

  GraphDef graph;
  std::vector<std::string> fetches;

  // Draws values for the placeholders.
  Feeds1 feeds(uint64_t seed) const {
    std::mt19937_64 random(seed);
    Feeds1 result;
    for (const NodeDef& node : graph.nodes) {
      if (node.op != "Placeholder") continue;
      const auto type = static_cast<DataType>(node.attributes.at("dtype").ints.at(0));
      Numbers numbers{type, *node.attributes.at("shape").shapes.at(0), {}};
      for (size_t i = 0; i < (numbers.dims.empty() ? 1 : kLength); ++i)
        numbers.elements.push_back(drawn(type, random));
      result[node.name] = numbers;
    }
    return result;
  }

 private:
  static constexpr size_t kLength = 3;
  static constexpr size_t kDeepest = 4;

  struct Form {
    DataType type = DataType::kInt32;
    bool is_vector = false;

    bool operator==(const Form& other) const {
      return type == other.type && is_vector == other.is_vector;
    }
  };
  struct Made {
    std::string name;
    Form form;
    bool is_guarded = false;  // it is there only if the loop goes on
  };
  // A branch, a loop, or the graph itself.
  struct Context {
    std::string prefix, condition, pivot, frame;
    bool side = false;
    bool is_guarded = false;  // nodes without inputs of values are behind the loop's condition
    std::vector<Made> values;
    std::map<std::string, std::string> captured;
  };

  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }
  bool chance(size_t percent) { return below(100) < percent; }
  Context& context() { return contexts_.back(); }

  static double drawn(DataType type, std::mt19937_64& random) {
    const auto number = static_cast<double>(random() % 9);
    if (type == DataType::kBool) return number < 5 ? 1 : 0;
    return type == DataType::kFloat ? (number - 4) / 4 : number - 3;
  }

  Form any_form() { return {chance(60) ? DataType::kInt32 : DataType::kFloat, chance(30)}; }

  std::string new_name(const std::string& base) {
    const std::string name = context().prefix + base;
    const size_t number = last_number_[name]++;
    return number == 0 ? name : name + "_" + std::to_string(number);
  }

  // ---- nodes

  std::string add(const std::string& op, std::vector<std::string> inputs, DataType type,
                  const std::string& base = "") {
    const std::string name = new_name(base.empty() ? op : base);
    graph.nodes.push_back(make_node(name, op, std::move(inputs), {{"T", type_attribute(type)}}));
    return name;
  }

  Made keep(const std::string& name, Form form, bool is_guarded) {
    context().values.push_back({name, form, is_guarded});
    return context().values.back();
  }

  Made constant(Form form, double value) {
    Numbers numbers{form.type, {}, {value}};
    if (form.is_vector) {
      numbers.dims = {kLength};
      for (size_t i = 1; i < kLength; ++i) numbers.elements.push_back(drawn(form.type, random_));
    }
    std::vector<std::string> inputs;
    if (!context().pivot.empty()) inputs.push_back("^" + context().pivot);
    const std::string name = new_name("Const");
    if (options_.constants_outside && contexts_.size() > 1) {
      graph.nodes.push_back(make_constant(name, numbers));
      return captured({name, form}, 0);
    }
    graph.nodes.push_back(make_constant(name, numbers, inputs));
    return {name, form, context().is_guarded};
  }
  Made constant(Form form) { return constant(form, drawn(form.type, random_)); }

  void add_inputs() {
    for (const DataType type : {DataType::kInt32, DataType::kFloat, DataType::kBool}) {
      for (const bool is_vector : {false, true}) {
        if (is_vector && type == DataType::kBool) continue;
        const std::string name = new_name("input");
        std::vector<int64_t> dims;
        if (is_vector) dims = {kLength};
        AttrValue shape;
        shape.kind = AttrValue::Kind::kShape;
        shape.shapes = {dims};
        graph.nodes.push_back(make_node(name, "Placeholder", {},
                                        {{"dtype", type_attribute(type)}, {"shape", shape}}));
        keep(name, {type, is_vector}, false);
      }
    }
  }

  // In a loop's body, what is computed only from values that are always there comes behind the
  // loop's condition by an edge from its pivot, as TensorFlow makes it.
  Made guarded(const Made& value) {
    if (!context().is_guarded || value.is_guarded) return value;
    return keep(add("Identity", {value.name, "^" + context().pivot}, value.form.type), value.form,
                true);
  }

  // Brings a value of an outer context into the one that is being filled.
  Made captured(const Made& value, size_t from) {
    Made now = value;
    for (size_t level = from + 1; level < contexts_.size(); ++level) {
      Context& into = contexts_[level];
      const auto known = into.captured.find(now.name);
      if (known != into.captured.end() && chance(80)) {
        now = {known->second, now.form, false};
        continue;
      }
      const std::string source = now.name;
      const bool is_loop = !into.frame.empty();
      const std::string name =
          into.prefix + (is_loop ? "Enter_c" : "Switch_c") + std::to_string(captures_++);
      if (is_loop) {
        graph.nodes.push_back(make_enter(name, source, into.frame, true));
        graph.nodes.back().attributes["T"] = type_attribute(now.form.type);
        now = {name, now.form, false};
      } else {
        graph.nodes.push_back(make_node(name, "Switch", {source, into.condition},
                                        {{"T", type_attribute(now.form.type)}}));
        now = {name + (into.side ? ":1" : ""), now.form, false};
      }
      into.captured[source] = now.name;
    }
    return now;
  }

  Made pick(Form form) {
    std::vector<std::pair<Made, size_t>> found;
    for (size_t level = 0; level < contexts_.size(); ++level)
      for (const Made& value : contexts_[level].values)
        if (value.form == form)
          // Values of the context itself are taken more often.
          for (size_t i = 0; i < (level + 1 == contexts_.size() ? 3U : 1U); ++i)
            found.emplace_back(value, level);
    if (!found.empty() && !chance(15)) {
      const auto& [value, level] = found[below(found.size())];
      return captured(value, level);
    }
    if (form.type == DataType::kBool) {
      const Form compared{any_form().type, false};
      return binary(chance(50) ? "Less" : "Greater", pick(compared), pick(compared), form);
    }
    return constant(form);
  }

  // Mostly the value of the context that was made last, so that what is nested in it counts.
  Made pick_result(Form form) {
    const std::vector<Made>& values = context().values;
    const auto last = std::find_if(values.rbegin(), values.rend(),
                                   [&](const Made& value) { return value.form == form; });
    return last == values.rend() || chance(30) ? pick(form) : *last;
  }

  Made binary(const std::string& op, const Made& a, const Made& b, Form form) {
    std::vector<std::string> inputs{a.name, b.name};
    if (chance(10) && !context().values.empty()) {
      const std::string& first = context().values[below(context().values.size())].name;
      if (first.find(':') == std::string::npos) inputs.push_back("^" + first);
    }
    return keep(add(op, inputs, a.form.type), form, a.is_guarded || b.is_guarded);
  }

  Made make_value(Form form) {
    const Form other{form.type, form.is_vector && chance(60)};
    if (form.type == DataType::kBool) {
      if (chance(20)) {
        const Made value = pick(form);
        return keep(add("LogicalNot", {value.name}, form.type), form, value.is_guarded);
      }
      return binary(chance(50) ? "LogicalAnd" : "LogicalOr", pick(form), pick(form), form);
    }
    if (chance(20)) {
      const Made value = pick(form);
      return keep(add(chance(50) ? "Neg" : "Identity", {value.name}, form.type), form,
                  value.is_guarded);
    }
    constexpr std::array<const char*, 5> kOps{"Add", "Sub", "Maximum", "Minimum", "Mul"};
    const std::string op = kOps[below(kOps.size())];
    const Made value = binary(op, pick(form), pick(other), form);
    return op == "Mul" ? bounded(value) : value;
  }

  // Keeps numbers small that a loop would let grow.
  Made bounded(const Made& value) {
    const Form form{value.form.type, false};
    return value.form.type == DataType::kInt32
               ? binary("FloorMod", value, constant(form, 101), value.form)
               : binary("Mul", value, constant(form, 0.25), value.form);
  }

  void fill(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const bool may_nest =
          contexts_.size() <= kDeepest && graph.nodes.size() < options_.most_nodes;
      const size_t kind = below(100);
      if (may_nest && kind < 20) {
        make_conditional();
      } else if (may_nest && kind < 35) {
        make_loop();
      } else {
        make_value(chance(20) ? Form{DataType::kBool, false} : any_form());
      }
    }
  }

  // ---- conditionals

  struct Condition {
    std::string prefix, id;
    std::array<std::string, 2> pivots;
  };

  Condition begin_conditional() {
    Condition condition;
    const Made chosen = guarded(pick({DataType::kBool, false}));
    condition.prefix = context().prefix + "cond_" + std::to_string(conditionals_++) + "/";
    const std::string outer = std::exchange(context().prefix, condition.prefix);
    const std::string both = add("Switch", {chosen.name, chosen.name}, DataType::kBool);
    condition.pivots[1] = add("Identity", {both + ":1"}, DataType::kBool, "switch_t");
    condition.pivots[0] = add("Identity", {both}, DataType::kBool, "switch_f");
    condition.id = chosen.name;
    for (size_t i = below(3); i > 0; --i)
      condition.id = add("Identity", {condition.id}, DataType::kBool, "pred_id");
    context().prefix = outer;
    return condition;
  }

  void enter_branch(const Condition& condition, bool side) {
    Context branch;
    branch.prefix = condition.prefix;
    branch.condition = condition.id;
    branch.pivot = condition.pivots[side ? 1 : 0];
    branch.side = side;
    contexts_.push_back(std::move(branch));
  }

  std::vector<std::string> branch_results(const std::vector<Form>& forms) {
    fill(below(4));
    std::vector<std::string> results;
    for (const Form& form : forms) results.push_back(pick_result(form).name);
    return results;
  }

  std::vector<std::string> branch(const Condition& condition, bool side,
                                  const std::vector<Form>& forms) {
    enter_branch(condition, side);
    std::vector<std::string> results = branch_results(forms);
    contexts_.pop_back();
    return results;
  }

  void make_conditional() {
    const Condition condition = begin_conditional();
    std::vector<Form> forms{any_form()};
    while (chance(40) && forms.size() < 3) forms.push_back(any_form());
    std::vector<std::vector<std::string>> ways{branch(condition, true, forms)};
    if (options_.cases && chance(15)) {
      enter_branch(condition, false);
      fill(below(3));
      const Condition second = begin_conditional();
      ways.push_back(branch(second, true, forms));
      ways.push_back(branch(second, false, forms));
      contexts_.pop_back();
    } else {
      ways.push_back(branch(condition, false, forms));
    }
    if (chance(70)) std::reverse(ways.begin(), ways.end());
    const std::string outer = std::exchange(context().prefix, condition.prefix);
    for (size_t i = 0; i < forms.size(); ++i) {
      std::vector<std::string> inputs;
      for (const auto& way : ways) inputs.push_back(way[i]);
      const std::string merge = add("Merge", inputs, forms[i].type);
      graph.nodes.back().attributes["N"] = {.kind = AttrValue::Kind::kInt,
                                            .ints = {static_cast<int64_t>(inputs.size())}};
      keep(merge, forms[i], false);
      if (options_.indices && chance(25)) keep(merge + ":1", {DataType::kInt32, false}, false);
    }
    context().prefix = outer;
  }

  // ---- loops

  struct Variable {
    std::string merge, next, taken;
    Form form;
  };

  void make_loop() {
    const std::string prefix = context().prefix + "while_" + std::to_string(loops_++) + "/";
    constexpr std::array<const char*, 3> kEnds{"", "/", "/while_context"};
    const std::string frame = prefix.substr(0, prefix.size() - 1) + kEnds[below(kEnds.size())];
    const Form whole{DataType::kInt32, false};
    const auto small = [&](double most) {
      if (chance(60)) return constant(whole, static_cast<double>(below(static_cast<size_t>(most))));
      return binary("FloorMod", pick(whole), constant(whole, most), whole);
    };
    std::vector<Made> starts{guarded(small(3))};
    const Made limit = small(5);
    while (chance(60) && starts.size() < 4) starts.push_back(guarded(pick(any_form())));

    const std::string outer = std::exchange(context().prefix, prefix);
    std::vector<std::string> enters;
    for (const Made& start : starts) {
      enters.push_back(new_name("Enter"));
      graph.nodes.push_back(make_enter(enters.back(), start.name, frame));
      graph.nodes.back().attributes["T"] = type_attribute(start.form.type);
    }
    context().prefix = outer;
    const size_t level = contexts_.size() - 1;
    Context loop;
    loop.prefix = prefix;
    loop.frame = frame;
    contexts_.push_back(loop);
    const std::vector<Variable> variables = begin_loop(starts, enters);
    const std::string goes_on = loop_condition(variables, captured(limit, level));
    std::vector<std::string> switches;
    for (const Variable& variable : variables)
      switches.push_back(add("Switch", {variable.merge, goes_on}, variable.form.type));
    loop_body(variables, switches);
    end_loop(variables, switches);
  }

  std::vector<Variable> begin_loop(const std::vector<Made>& starts,
                                   const std::vector<std::string>& enters) {
    std::vector<Variable> variables;
    for (size_t i = 0; i < starts.size(); ++i) {
      Variable variable{"", new_name("NextIteration"), "", starts[i].form};
      variable.merge = add("Merge", {enters[i], variable.next}, variable.form.type);
      if (i == 0) context().pivot = variable.merge;
      keep(variable.merge, variable.form, false);
      if (options_.indices && chance(10))
        keep(variable.merge + ":1", {DataType::kInt32, false}, false);
      variables.push_back(variable);
    }
    return variables;
  }

  std::string loop_condition(const std::vector<Variable>& variables, const Made& limit) {
    fill(below(3));
    const Form flag{DataType::kBool, false};
    const Made counter{variables[0].merge, variables[0].form, false};
    Made goes_on = binary("Less", counter, limit, flag);
    if (chance(30)) goes_on = binary("LogicalAnd", goes_on, pick(flag), flag);
    return add("LoopCond", {goes_on.name}, DataType::kBool);
  }

  void loop_body(const std::vector<Variable>& variables, const std::vector<std::string>& switches) {
    // Now and then the body also reads what was computed for the condition.
    if (chance(70)) context().values.clear();
    context().is_guarded = true;
    std::vector<Made> own;
    for (size_t i = 0; i < variables.size(); ++i) {
      std::string value = switches[i] + ":1";
      if (i == 0 || chance(80)) value = add("Identity", {value}, variables[i].form.type);
      if (i == 0) context().pivot = value;
      own.push_back(keep(value, variables[i].form, true));
    }
    fill(1 + below(4));
    for (size_t i = 0; i < variables.size(); ++i) {
      const Form form = variables[i].form;
      Made next = i == 0 ? binary("Add", own[0], constant(form, 1), form) : pick_result(form);
      // What comes from the condition's part or from outside would be there for ever.
      if (i != 0 && (!next.is_guarded || chance(60))) next = bounded(next);
      if (!next.is_guarded) next = binary("Maximum", next, own[i], form);
      graph.nodes.push_back(make_node(variables[i].next, "NextIteration", {next.name},
                                      {{"T", type_attribute(form.type)}}));
    }
  }

  void end_loop(const std::vector<Variable>& variables, const std::vector<std::string>& switches) {
    std::vector<Made> exits;
    for (size_t i = 0; i < variables.size(); ++i)
      if (i == 0 || chance(80))
        exits.push_back({add("Exit", {switches[i]}, variables[i].form.type), variables[i].form});
    contexts_.pop_back();
    for (const Made& exit : exits) keep(exit.name, exit.form, false);
  }

  void choose_fetches() {
    for (const Made& value : context().values)
      if (chance(50)) fetches.push_back(value.name);
    fetches.push_back(context().values.back().name);
  }

  std::mt19937_64 random_;
  RandomControlFlowOptions options_;
  std::vector<Context> contexts_;
  std::map<std::string, size_t> last_number_;
  size_t conditionals_ = 0, loops_ = 0, captures_ = 0;
};

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_RANDOM_CONTROL_FLOW_FOR_TESTS_H
