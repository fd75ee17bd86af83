// Every law is shown red once: a deliberately broken snippet, and beside it one that obeys.
#include "tests/tidy/laws.h"

#include <gtest/gtest.h>

#include "tests/tidy/type_names.h"

namespace fm::tidy {

namespace {

Limits small_limits() {
  return {.function_lines = 5,
          .source_lines = 12,
          .header_lines = 8,
          .columns = 60,
          .may_include = {{"core", {}},
                          {"zero", {"core", "comm"}},
                          {"zero/low", {}},
                          {"zero/high", {"zero/low"}}},
          .faces = {{"comm", {"comm/any/face.h"}}},
          .halls = {"hall"},
          .may_name_torch = {"zero/device.cc"},
          .may_have_state = {"zero/registry.cc"},
          .may_end_process = {"zero/registry.cc"},
          .know_no_family = {"zero"},
          .families = {"llama"},
          .declare_kernels = {"zero/add.h"},
          .library_prefixes = {"nlohmann/", "mpi.h"}};
}

using Law = Findings (*)(const Source&, const Limits&);

// The lines that break `law`, e.g. "2 5 ".
std::string broken_lines(Law law, const std::string& path, const std::string& text) {
  std::string lines;
  for (const Finding& finding : law(Source(path, text), small_limits())) {
    lines += std::to_string(finding.line) + " ";
  }
  return lines;
}

TEST(TidyLaws, IncludesFollowTheMatrix) {
  const std::string text =
      "#include <vector>\n"
      "#include \"core/types.h\"\n"
      "#include \"zero/own.h\"\n"
      "#include \"model/unit.h\"\n"
      "// #include \"model/unit.h\"\n"
      "#include \"types.h\"\n";
  EXPECT_EQ(broken_lines(include_matrix, "zero/a.cc", text), "4 6 ");
  EXPECT_EQ(broken_lines(include_matrix, "core/a.cc", text), "3 4 6 ");
  EXPECT_EQ(broken_lines(include_matrix, "unknown/a.cc", text), "1 ");
  EXPECT_EQ(broken_lines(include_matrix, "tests/zero/a.cc", text), "");
}

TEST(TidyLaws, WingsFollowTheMatrixToo) {
  const std::string text =
      "#include \"zero/top.h\"\n"
      "#include \"zero/low/a.h\"\n"
      "#include \"zero/high/a.h\"\n"
      "#include \"comm/any/face.h\"\n"
      "#include \"model/unit.h\"\n"
      "#include \"comm/any/inner.h\"\n";
  EXPECT_EQ(broken_lines(include_matrix, "zero/low/b.cc", text), "3 5 6 ");
  EXPECT_EQ(broken_lines(include_matrix, "zero/high/b.cc", text), "5 6 ");
  EXPECT_EQ(broken_lines(include_matrix, "zero/b.cc", text), "2 3 5 6 ");
  EXPECT_EQ(broken_lines(include_matrix, "zero/unknown/b.cc", text), "1 ");
  EXPECT_EQ(Source("zero/low/b.cc", "").wing(), "zero/low");
}

TEST(TidyLaws, ACircleInTheMatrixIsFound) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(circle_in({{"a", {}}, {"b", {"a"}}, {"c", {"a", "b"}}}), Names{});
  EXPECT_EQ(circle_in({{"a", {}}, {"b", {"a", "d"}}, {"c", {"b"}}, {"d", {"c"}}}),
            (Names{"b", "d", "c"}));
  EXPECT_EQ(circle_in({{"a/low", {"a/high"}}, {"a/high", {"a/low"}}}), (Names{"a/high", "a/low"}));
}

TEST(TidyLaws, OnlyListedFilesNameTorch) {
  const std::string text =
      "#include <ATen/ATen.h>\n"
      "at::Tensor f() { return c10::g(x.at(1)); }\n"
      "// at::Tensor in a comment, \"torch::nn\" in a string\n"
      "const char* kText = \"torch::nn\";\n";
  EXPECT_EQ(broken_lines(torch_free, "zero/a.cc", text), "1 2 2 ");
  EXPECT_EQ(broken_lines(torch_free, "zero/device.cc", text), "");
  EXPECT_EQ(broken_lines(torch_free, "tests/zero/a.cc", text), "");
  EXPECT_EQ(broken_lines(torch_free, "tests/a.cc", "#include <torch/torch.h>\n"), "1 ");
}

TEST(TidyLaws, HeadersKeepLibrariesOut) {
  const std::string text = "#pragma once\n#include <nlohmann/json.hpp>\n#include <map>\n";
  EXPECT_EQ(broken_lines(libraries_stay_in_sources, "zero/a.h", text), "2 ");
  EXPECT_EQ(broken_lines(libraries_stay_in_sources, "zero/a.cc", text), "");
  EXPECT_EQ(broken_lines(libraries_stay_in_sources, "zero/a.h", "#include <map>\n"), "1 ");
}

std::string lines_of(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "int x;\n";
  return text;
}

TEST(TidyLaws, FilesAndLinesHaveACap) {
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", lines_of(12)), "");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", lines_of(13)), "13 ");
  EXPECT_EQ(broken_lines(lengths, "zero/a.h", lines_of(8)), "");
  EXPECT_EQ(broken_lines(lengths, "zero/a.h", lines_of(9)), "9 ");
  const std::string wide = "//" + std::string(58, 'x');
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", wide + "\n"), "");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", "\n" + wide + "y\n"), "2 ");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", "//" + std::string(57, 'x') + "\u00d7\n"), "");
}

TEST(TidyLaws, FunctionsHaveACap) {
  const std::string body = "  a();\n  b();\n  c();\n";  // with two more lines: 5
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", "void f() {\n" + body + "}\n"), "");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", "void f() {\n  d();\n" + body + "}\n"), "1 ");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", "void f(int a,\n  int b) {\n" + body + "}\n"), "1 ");
  // In a class, behind a constructor's list with braces, as a test, as a template.
  EXPECT_EQ(
      broken_lines(lengths, "zero/a.cc",
                   "class A {\n public:\n  A() : a_{1}, b_{2} {\n  d();\n" + body + "}\n};\n"),
      "3 ");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", "TEST(A, B) {\n  d();\n" + body + "}\n"), "1 ");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc",
                         "template <class T>\nvoid f(T t) {\n  d();\n" + body + "}\n"),
            "2 ");
}

TEST(TidyLaws, TablesAndClassesAreNotFunctions) {
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc",
                         "constexpr Row kRows[] = {\n{f(1)},\n{2},\n{3},\n{4},\n{5}};\n"),
            "");
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc",
                         "struct A {\n int a = 0;\n int b{1};\n\n\n\n void f() { g(); }\n};\n"),
            "");
}

TEST(TidyLaws, BracesInTextDoNotCount) {
  const std::string text =
      "void f() {\n  a('{', \"{\", 1'000);\n}\n"
      "void g() {\n  b(R\"x({ \" )\" {)x\");  // {\n}\n/* { */\n";
  EXPECT_EQ(broken_lines(lengths, "zero/a.cc", text), "");
  EXPECT_EQ(Source("zero/a.cc", text).functions.size(), 2U);
}

TEST(TidyLaws, NamesSaySomething) {
  EXPECT_EQ(broken_lines(telling_names, "zero/file_utils.cc", ""), "1 ");
  EXPECT_EQ(broken_lines(telling_names, "zero/common.h", ""), "1 ");
  EXPECT_EQ(broken_lines(telling_names, "zero/a.h", "\nclass SlotManager {};\n"), "2 ");
  EXPECT_EQ(broken_lines(telling_names, "zero/a.h", "struct UnitBase {};\n"), "1 ");
  EXPECT_EQ(broken_lines(telling_names, "zero/database.h", "class Baseline {};\n"), "");
}

TEST(TidyLaws, AFolderHasOneNamespace) {
  const std::string good = "namespace fm::zero {\nnamespace {\n}\n}\n";
  EXPECT_EQ(broken_lines(one_namespace, "zero/a.cc", good), "");
  EXPECT_EQ(broken_lines(one_namespace, "zero/a.cc", "namespace fs = std::filesystem;\n" + good),
            "");
  EXPECT_EQ(broken_lines(one_namespace, "zero/a.cc", "namespace fm::zero::wide {\n}\n"), "");
  EXPECT_EQ(broken_lines(one_namespace, "zero/a.cc", good + "namespace fm::zeros {\n}\n"), "5 ");
  EXPECT_EQ(broken_lines(one_namespace, "core/a.cc", good), "1 1 ");
  EXPECT_EQ(broken_lines(one_namespace, "zero/a.cc", good + "namespace std {\n}\n"), "5 ");
  EXPECT_EQ(broken_lines(one_namespace, "zero/a.cc", "int x();\n"), "1 ");
  EXPECT_EQ(broken_lines(one_namespace, "zero/a.cc", "int main() { return 0; }\n"), "");
  EXPECT_EQ(broken_lines(one_namespace, "hall/zero/a.cc", good), "");
  EXPECT_EQ(broken_lines(one_namespace, "hall/one/a.cc", good), "1 1 ");
}

TEST(TidyLaws, NothingGlobalChanges) {
  EXPECT_EQ(broken_lines(no_mutable_globals, "zero/a.cc",
                         "namespace fm::zero {\n"
                         "int counter = 0;\n"
                         "constexpr int kRows[] = {1, 2};\n"
                         "std::atomic<int> flag{0};\n"
                         "int f(int a = 1);\n"
                         "struct A {\n"
                         "  int member = 0;\n"
                         "  static int shared;\n"
                         "};\n"
                         "}\n"),
            "2 4 8 ");
  const std::string local =
      "void f() {\n  static int calls = 0;\n  static const int kTwo = 2;\n}\n";
  EXPECT_EQ(broken_lines(no_mutable_globals, "zero/a.cc", local), "2 ");
  EXPECT_EQ(broken_lines(no_mutable_globals, "zero/registry.cc", local), "");
}

TEST(TidyLaws, SwitchesNameEveryCase) {
  const std::string text =
      "A(const A&) = default;\n"
      "switch (a) {\n"
      "  default: break;\n"
      "  default: break;  // any other character\n"
      "}\n";
  EXPECT_EQ(broken_lines(no_default_label, "zero/a.cc", text), "3 ");
}

TEST(TidyLaws, AStageIsQualified) {
  EXPECT_EQ(broken_lines(qualified_stage, "zero/a.cc",
                         "int zero_stage = json[\"stage\"];  // stage\nint stage = 1;\n"),
            "2 ");
}

TEST(TidyLaws, OnlyMainEndsTheProcess) {
  const std::string text =
      "void f() {\n  std::exit(1);\n  x.abort();\n  assert(y);\n  ::_exit(1);\n}\n"
      "void World::abort() {}\n";
  EXPECT_EQ(broken_lines(only_main_ends, "zero/a.cc", text), "2 4 5 ");
  EXPECT_EQ(broken_lines(only_main_ends, "zero/registry.cc", text), "");
  EXPECT_EQ(broken_lines(only_main_ends, "zero/a.cc", text + "int main() { return 0; }\n"), "");
}

TEST(TidyLaws, BodiesHaveNoConditionalDirectives) {
  EXPECT_EQ(broken_lines(no_directives_in_bodies, "zero/a.cc",
                         "#ifdef A\n#endif\nvoid f() {\n#ifdef B\n#endif\n}\n"),
            "4 ");
}

TEST(TidyLaws, FamiliesAreNotNamedWhereAllAreServed) {
  const std::string text =
      "#include \"core/llama_config.h\"\n"
      "LlamaConfig a;\n"
      "int b = open_llama(1);\n"
      "const char* c = \"llama\";  // of llama\n";
  EXPECT_EQ(broken_lines(no_family, "zero/a.cc", text), "2 3 1 ");
  EXPECT_EQ(broken_lines(no_family, "core/a.cc", text), "");
}

// "Name=full name ..." of all types that a source defines.
std::string types_of(const std::string& text) {
  std::string types;
  for (const TypeDefinition& type : types_in(Source("zero/a.cc", text))) {
    types += type.name + "=" + type.full_name + " ";
  }
  return types;
}

TEST(TidyLaws, TypesAreKnownByTheirFullNames) {
  EXPECT_EQ(types_of("namespace fm::zero {\n"
                     "struct Later;\n"
                     "class Watch final : public Base<struct Other> {\n"
                     " public:\n"
                     "  enum class Kind : int { kOne };\n"
                     "  Kind kind_ = {};\n"
                     "};\n"
                     "namespace {\n"
                     "struct alignas(64) Line {};\n"
                     "}\n"
                     "template <class T>\n"
                     "struct Block<T>::Kept {};\n"
                     "template <>\n"
                     "struct Hash<Line> { struct Inner {}; };\n"
                     "struct Status status{};\n"
                     "struct Line line_of(Watch& watch) {\n"
                     "  struct Row {};\n"
                     "  return {};\n"
                     "}\n"
                     "}\n"),
            "Watch=fm::zero::Watch Kind=fm::zero::Watch::Kind Line=fm::zero::(zero/a.cc)::Line "
            "Kept=fm::zero::Block::Kept Inner=fm::zero::Inner ");
}

TEST(TidyLaws, ANameOfThreeThingsIsFound) {
  const Things two = {{"Frame", {"fm::comm::Frame", "fm::chat::Frame"}}};
  EXPECT_TRUE(shared_names(two, 2).empty());
  Things three = two;
  three["Frame"].insert("fm::comm::Watch::Frame");
  EXPECT_EQ(shared_names(three, 2), three);
}

TEST(TidyLaws, KernelsTakeAWorkFirst) {
  const std::string text =
      "void add(const core::Work& work, int count);\n"
      "void multiply(core::Work& work);\n"
      "void clear(int count, const core::Work& work);\n"
      "int blocks(int count);\n"
      "inline void fill(float* out) {}\n"
      "struct Row { void (*run)(int); };\n";
  EXPECT_EQ(broken_lines(kernels_take_work, "zero/add.h", text), "3 5 ");
  EXPECT_EQ(broken_lines(kernels_take_work, "zero/other.h", text), "");
}

TEST(TidyLaws, PlacesAreNotNamed) {
  const std::string place = std::string("/ho") + "me/someone";
  EXPECT_EQ(no_places("a\n" + place + "\n").size(), 1U);
  EXPECT_EQ(no_places("a\n" + place + "\n").front().line, 2);
  EXPECT_TRUE(no_places("network/a at home\n").empty());
}

TEST(TidyLaws, UnbuiltSourcesAreFound) {
  const std::string lists = "fm_library(fm_zero SOURCES data.cc b.cc)\n";
  EXPECT_EQ(not_built({"data.cc", "a.cc", "b.cc", "a.h"}, lists), std::vector<std::string>{"a.cc"});
  // A file of a wing is listed with its wing; its name alone is another file.
  EXPECT_EQ(not_built({"c.cc", "wing/c.cc"}, "SOURCES wing/c.cc"),
            std::vector<std::string>{"c.cc"});
  // A folder may be built whole.
  EXPECT_EQ(not_built({"c.cc", "wing/c.cc"}, "lib(x FOLDERS wing LINKS y)"),
            std::vector<std::string>{"c.cc"});
  EXPECT_EQ(not_built({"c.cc", "y/c.cc"}, "lib(x FOLDERS . LINKS y)"),
            std::vector<std::string>{"y/c.cc"});
}

TEST(TidyLaws, SourcesWithoutTheirHeaderAreFound) {
  const std::set<std::string> files = {"a/b.cc", "a/b.h", "a/b_twin.cc", "a/train_main.cc"};
  EXPECT_EQ(without_header(files, {}), std::vector<std::string>{"a/b_twin.cc has no header"});
  EXPECT_TRUE(without_header(files, {{"a/b_twin.cc", "a/b.h"}}).empty());
  EXPECT_EQ(without_header(files, {{"a/b_twin.cc", "a/b.h"}, {"a/b.cc", "a/c.h"}}),
            (std::vector<std::string>{"a/b.cc has a header again", "a/c.h is gone"}));
  EXPECT_EQ(without_header(files, {{"a/b_twin.cc", "a/b.h"}, {"a/d.cc", "a/b.h"}}),
            std::vector<std::string>{"a/d.cc is gone"});
}

}  // namespace

}  // namespace fm::tidy
