// The `keel` tool: train models, look at backends and graphs.
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <keel/core/group/group.h>
#include <keel/keel.h>

#include "cli/base/commands.h"
#include "cli/base/config_file.h"
#include "cli/base/errors.h"

namespace keel_cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& words);
  bool shows_environment = false;  // wrong values included, so that it checks KEEL_LOG itself
};

constexpr Command kCommands[] = {
    {"train", "train a model on MNIST, CIFAR-10, a table, a text or the built-in digits",
     run_train},
    {"sample", "text that a trained charlm writes", run_sample},
    {"eval", "measure saved weights: accuracy, loss, confusion", run_eval},
    {"predict", "what saved weights make of one image", run_predict},
    {"export", "write a model with saved weights as an ONNX file", run_export},
    {"freeze", "write a model and its weights as one graph, or ONNX file, that only answers",
     run_freeze},
    {"inspect", "the states in a saved file: shapes, norms, NaN", run_inspect},
    {"info", "version, backends, devices, and which op runs where", run_info},
    {"config", "flags from options of Ascend's adapter; the environment in force", run_config,
     /*shows_environment=*/true},
    {"graph", "print the graph of a model", run_graph},
    {"import", "make a graph and a file of weights of an ONNX model or a TensorFlow graph",
     run_import},
    {"run", "run an ONNX model, a TensorFlow graph, or an imported one, on NumPy files", run_run},
    {"migrate", "report what scripts and models of TensorFlow 1 need to come to Keel", run_migrate},
    {"profile", "show what `train --profile` wrote", run_profile},
    {"bench", "measure training, kernels, loop sizes, feeding and compiling", run_bench},
    {"launch", "start the ranks of a job on this machine", run_launch},
    {"conformance", "check a backend op by op against the references: a scorecard",
     run_conformance},
    {"calibrate", "the NPU's device model beside published measurements", run_calibrate},
};

void print_usage(std::ostream& out) {
  out << "keel " << KEEL_VERSION
      << ": a mini deep-learning framework\n\nusage: keel COMMAND [flags]\n";
  for (const Command& command : kCommands) {
    out << "  " << command.name << std::string(13 - std::string(command.name).size(), ' ')
        << command.summary << "\n";
  }
  out << "\n`keel COMMAND --help` lists the flags of a command.\n";
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    print_usage(std::cerr);
    return kExitWrongArgument;
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_usage(std::cout);
    return kExitDone;
  }
  if (words[0] == "--version") {
    std::cout << "keel " << KEEL_VERSION << "\n";
    return kExitDone;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
    if (words[0] != command.name) continue;
    // An error if it names no level.
    if (!command.shows_environment) static_cast<void>(keel::log_level_in_environment());
    return command.run({words.begin() + 1, words.end()});
  }
  keel::parse_choice(words[0], "command", names);
  return kExitWrongArgument;
}

int run(const std::vector<std::string>& words) {
  // A write beyond the limit on file sizes is an error like that of a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = dispatch(words);
    if (!std::cout.flush()) throw keel::Error({.op = "stdout", .message = "cannot be written"});
    return code;
  } catch (const keel::RankLost& error) {
    print_error(error);
    return kExitRankLost;
  } catch (const keel::Error& error) {
    print_error(error, origin_of_flags(error.what(), words));
    const bool argument = error.info().kind == keel::ErrorKind::kInvalidArgument;
    return argument ? kExitWrongArgument : kExitFailed;
  } catch (const std::exception& error) {
    print_error(error);
    return kExitFailed;
  } catch (...) {
    print_error(keel::Error(text_of_thrown()));
    return kExitFailed;
  }
}

}  // namespace
}  // namespace keel_cli

int main(int argc, char** argv) { return keel_cli::run({argv + 1, argv + argc}); }
