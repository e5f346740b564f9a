#include "keel/ops/conformance/scorecard.h"

#include <algorithm>
#include <exception>

#include "keel/core/base/environment.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/conformance/cases.h"
#include "keel/ops/conformance/tolerance.h"

namespace keel::conformance {
namespace {

// Says how a backend runs some fetches of a case.
struct Claim {
  bool runs = false;
  bool composed = false;  // not all of its nodes as they are
  std::string reason;     // why it does not
};

Claim claim_of(const Backend& backend, const Case& c, const Values& fetches) {
  const auto graph = specialise_case(c, fetches);
  Claim claim;
  for (const Node& node : graph->nodes()) {
    if (node.has(kSource)) continue;
    claim.composed = claim.composed || !backend.supports(node).supported;
  }
  try {
    decompose(*graph, [&](const Node& node) { return backend.supports(node); });
    claim.runs = true;
  } catch (const Error& error) {
    claim.reason = error.what();
  }
  return claim;
}

std::vector<Tensor> run_on(Backend& backend, const Case& c, const Values& fetches) {
  Session session(*c.graph, Device(&backend, 0));
  SpecialiseRequest request{
      .graph = c.graph.get(), .fetches = fetches, .update = {}, .input_types = {}};
  Feeds feeds;
  for (const Value& input : reached_inputs(request)) {
    feeds.emplace_back(input, c.tensors.at(name_of(input.node())));
  }
  return session.run(fetches, feeds);
}

std::string check_forward(Backend& backend, const Case& c) {
  const auto graph = specialise_case(c, c.outputs);
  const Evaluation expected(*graph, c.tensors);
  return compare_outputs(run_on(backend, c, c.outputs), *graph, expected);
}

// How many cases have a gradient, and how many of these gradients the backend does not run.
struct GradientsRun {
  int cases = 0;
  int not_run = 0;
  std::string reason;  // why it does not run the first of these
};

std::string note_of(const GradientsRun& gradients) {
  if (gradients.not_run == 0) return "";
  std::string text = "gradient not run";
  if (gradients.not_run < gradients.cases) {
    text += " in " + std::to_string(gradients.not_run) + " of " + std::to_string(gradients.cases) +
            " cases";
  }
  return text + ": " + gradients.reason;
}

// A gradient is many ops: its error is bounded by the largest number on the way, not element by
// element.
std::string check_gradient(Backend& backend, const Case& c, GradientsRun& run) {
  const Value loss = weighted_sum(c);
  Values xs;
  for (const size_t i : differentiable_inputs(c)) xs.push_back(c.inputs[i]);
  if (!loss.valid() || xs.empty()) return "";
  const Values fetches = gradients(loss, xs);
  ++run.cases;
  const Claim claim = claim_of(backend, c, fetches);
  if (!claim.runs) {
    if (run.not_run++ == 0) run.reason = claim.reason;
    return "";
  }
  const auto graph = specialise_case(c, fetches);
  const Evaluation expected(*graph, c.tensors);
  const std::vector<Tensor> got = run_on(backend, c, fetches);
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor& reference = expected(graph->outputs()[i]);
    const Tensor scale = Tensor::full(f64, reference.shape(), expected.largest());
    const std::string difference = compare(got[i], reference, {.ulps = 32, .k = 16}, scale);
    if (!difference.empty()) {
      return "gradient of " + name_of(c.inputs[differentiable_inputs(c)[i]].node()) + " " +
             difference;
    }
  }
  return "";
}

// Returns whether the backend runs the op in that dtype, by a few samples: one that it runs is
// enough.
Score first_look(const Backend& backend, const OpDef& op, DType dtype) {
  constexpr uint64_t kSamples = 4;
  Score score{.op = op.name, .dtype = dtype, .verdict = Verdict::kUnsupported, .detail = {}};
  for (uint64_t seed = 0; seed < kSamples; ++seed) {
    try {
      const Case c = make_case(op, seed, dtype, 20);
      if (c.graph == nullptr) continue;
      const Claim claim = claim_of(backend, c, c.outputs);
      if (claim.runs) {
        score.verdict = Verdict::kPass;
        score.detail.clear();
        return score;
      }
      score.detail = claim.reason;
    } catch (const std::exception& error) {
      score.verdict = Verdict::kFail;
      score.detail = std::string("throws: ") + error.what();
      return score;
    } catch (...) {
      score.verdict = Verdict::kFail;
      score.detail = "throws something that is no exception";
      return score;
    }
  }
  return score;
}

void look_closely(Backend& backend, const OpDef& op, int count, Score& score) {
  bool composed = false;
  std::string refusal;  // of the first case that the backend does not run
  GradientsRun gradients_run;
  score.detail = check_cases(op, score.dtype, count, [&](const Case& c) -> std::string {
    const Claim claim = claim_of(backend, c, c.outputs);
    if (!claim.runs) {
      if (refusal.empty()) refusal = claim.reason;
      return "";
    }
    ++score.cases;
    composed = composed || claim.composed;
    const std::string difference = check_forward(backend, c);
    return difference.empty() ? check_gradient(backend, c, gradients_run) : difference;
  });
  if (!score.detail.empty()) {
    score.verdict = Verdict::kFail;
  } else if (score.cases == 0) {
    // The few samples of the first look say that it runs, but nothing that was run says so.
    score.verdict = Verdict::kUnsupported;
    score.detail = "no case of " + std::to_string(count) + " was run" +
                   (refusal.empty() ? "" : ": " + refusal);
  } else {
    if (composed) score.verdict = Verdict::kComposed;
    score.detail = note_of(gradients_run);
  }
}

std::vector<const OpDef*> chosen_ops(const std::vector<std::string>& names) {
  std::vector<const OpDef*> all = computing_ops();
  if (names.empty()) return all;
  std::vector<std::string> known;
  for (const OpDef* op : all) known.push_back(op->name);
  for (const std::string& name : names) parse_choice(name, "op", known);
  std::erase_if(all, [&](const OpDef* op) {
    return std::find(names.begin(), names.end(), op->name) == names.end();
  });
  return all;
}

}  // namespace

const char* name_of(Verdict verdict) noexcept {
  static constexpr const char* kNames[] = {"pass", "composed", "unsupported", "fail"};
  return kNames[static_cast<size_t>(verdict)];
}

std::vector<Score> scorecard(Backend& backend, const ScorecardOptions& options) {
  std::vector<Score> scores;
  for (const OpDef* op : chosen_ops(options.ops)) {
    std::vector<Score> row;
    for (const DType dtype : sampled_dtypes(*op)) row.push_back(first_look(backend, *op, dtype));
    const auto claimed = std::count_if(row.begin(), row.end(),
                                       [](const Score& s) { return s.verdict == Verdict::kPass; });
    const int share = cases_for_each_dtype(options.cases, static_cast<size_t>(claimed));
    for (Score& score : row) {
      if (score.verdict == Verdict::kPass) look_closely(backend, *op, share, score);
      if (options.listen) options.listen(score);
      scores.push_back(score);
    }
  }
  return scores;
}

}  // namespace keel::conformance
