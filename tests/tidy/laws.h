// The laws of style as functions: each looks at one source and names every line that breaks it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace fm::tidy {

// What the laws leave to tables; the project's own values are in tidy_test.cc.
struct Limits {
  int function_lines = 0;
  int source_lines = 0;
  int header_lines = 0;
  int columns = 0;
  // folder -> folders; a folder with wings has a row "folder/wing" -> wings of it for each. All
  // wings may include what lies at the top of their folder, which includes none of them.
  std::map<std::string, std::set<std::string>> may_include;
  // The headers in wings of a folder that other folders may include, beside those at its top. A
  // folder without a row keeps none to itself.
  std::map<std::string, std::set<std::string>> faces = {};
  std::set<std::string> halls = {};            // folders whose wings have a namespace of their own
  std::set<std::string> may_name_torch;        // sources, besides tests and benchmarks
  std::set<std::string> may_have_state;        // sources with a mutable global, and why there
  std::set<std::string> may_end_process;       // sources besides those with main
  std::set<std::string> know_no_family;        // folders and wings
  std::vector<std::string> families;           // words of names that belong to one model family
  std::set<std::string> declare_kernels = {};  // headers of public kernels
  std::vector<std::string> library_prefixes;   // of <...> that no header may include
  std::set<std::string> stand_for_libraries = {};  // headers that may
};

struct Finding {
  int line = 0;
  std::string law;
};
using Findings = std::vector<Finding>;

// The folders and wings that `may_include` lets include themselves through others; empty: none.
std::vector<std::string> circle_in(const std::map<std::string, std::set<std::string>>& may_include);

Findings include_matrix(const Source& source, const Limits& limits);
Findings torch_free(const Source& source, const Limits& limits);
Findings libraries_stay_in_sources(const Source& source, const Limits& limits);
Findings lengths(const Source& source, const Limits& limits);
Findings telling_names(const Source& source, const Limits& limits);
Findings one_namespace(const Source& source, const Limits& limits);
Findings no_mutable_globals(const Source& source, const Limits& limits);
Findings no_default_label(const Source& source, const Limits& limits);
Findings qualified_stage(const Source& source, const Limits& limits);
Findings only_main_ends(const Source& source, const Limits& limits);
// No name and no include of a model family where all are served alike.
Findings no_family(const Source& source, const Limits& limits);
Findings no_directives_in_bodies(const Source& source, const Limits& limits);

// What a header of kernels declares takes a core::Work first, unless it returns a value.
Findings kernels_take_work(const Source& source, const Limits& limits);

// Every law above applied to `source`.
Findings all_laws(const Source& source, const Limits& limits);

// For any text file: nothing that only exists on one machine or at one site.
Findings no_places(const std::string& text);

// Sources (".cc", ".cu") that `cmake_lists` does not name, of those in `files`.
std::vector<std::string> not_built(const std::vector<std::string>& files,
                                   const std::string& cmake_lists);

// What breaks the law that a source a/b.cc has its header a/b.h, of `files`. `behind` has a row for
// every source that is declared elsewhere (source -> header); a row that is no longer needed breaks
// the law, too.
std::vector<std::string> without_header(const std::set<std::string>& files,
                                        const std::map<std::string, std::string>& behind);

}  // namespace fm::tidy
