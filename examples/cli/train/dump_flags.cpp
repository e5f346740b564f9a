#include "cli/train/dump_flags.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "cli/base/flag_errors.h"

namespace keel_cli {
namespace {

// The flags are about what one of the others asks for.
void require_one_of(const CommandLine& line, const std::string& wanted,
                    std::initializer_list<const char*> flags) {
  for (const char* flag : flags) {
    if (line.has(flag))
      refuse_flag(std::string("--") + flag, "nothing is dumped without " + wanted,
                  "add it, or drop this");
  }
}

// Returns the text with the flag in place of the field of DumpOptions that it names.
std::string with_flags(std::string text) {
  for (const std::string name :
       {"enable_dump_debug", "enable_dump", "dump_path", "dump_layer", "dump_debug_mode"}) {
    const size_t at = text.find(name);
    if (at == std::string::npos) continue;
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    return text.replace(at, name.size(), flag);
  }
  return text;
}

}  // namespace

void throw_in_dump_flags(const keel::Error& error) {
  keel::ErrorInfo info = error.info();
  info.op = with_flags(std::exchange(info.argument, {}));
  info.fix = with_flags(info.fix);
  info.site = {};
  throw keel::Error(std::move(info));
}

void declare_dump_flags(CommandLine& line) {
  line.add("enable-dump", "", "write what each op computes in each step, below --dump-path");
  line.add("enable-dump-debug", "",
           "write the op that overflowed, in each step with overflow, below --dump-path");
  line.add("dump-path", "DIR", "the folder to write DIR/TIME/DEVICE/MODEL/PROGRAM/STEP in");
  line.add("dump-step", "0|5|10-20", "the steps of --enable-dump (all)");
  line.add("dump-mode", "input|output|all", "what it writes of an op (output)");
  line.add("dump-layer", "'NAME NAME'", "of which nodes (all)");
  line.add("dump-data", "tensor|stats", "as .npy files, or as one stats.csv (tensor)");
  line.add("dump-debug-mode", "aicore_overflow|atomic_overflow|all",
           "the overflow that --enable-dump-debug looks for (all)");
}

keel::DumpOptions read_dump_flags(const CommandLine& line) {
  keel::DumpOptions dump;
  dump.enable_dump = line.has("enable-dump");
  dump.enable_dump_debug = line.has("enable-dump-debug");
  if (const auto text = line.text("dump-step"))
    dump.steps = keel::parse_dump_step(*text, "--dump-step");
  if (const auto text = line.text("dump-mode"))
    dump.mode = keel::parse_dump_mode(*text, "--dump-mode");
  if (const auto text = line.text("dump-layer"))
    dump.layers = keel::parse_dump_layer(*text, "--dump-layer");
  if (const auto text = line.text("dump-data"))
    dump.data = keel::parse_dump_data(*text, "--dump-data");
  if (const auto text = line.text("dump-debug-mode"))
    dump.debug_mode = keel::parse_dump_debug_mode(*text, "--dump-debug-mode");
  dump.path = line.text("dump-path").value_or("");
  if (dump.enable_dump && dump.enable_dump_debug)
    refuse_flag("--enable-dump-debug", "--enable-dump is given as well", "give one of the two");
  if (!dump.enable_dump)
    require_one_of(line, "--enable-dump", {"dump-step", "dump-mode", "dump-layer", "dump-data"});
  if (!dump.enable_dump_debug) require_one_of(line, "--enable-dump-debug", {"dump-debug-mode"});
  if (!dump.on())
    require_one_of(line, "--enable-dump or --enable-dump-debug", {"dump-path"});
  else if (dump.path.empty())
    refuse_flag(dump.enable_dump ? "--enable-dump" : "--enable-dump-debug",
                "--dump-path is not given", "add --dump-path with a folder");
  return dump;
}

}  // namespace keel_cli
