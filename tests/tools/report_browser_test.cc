// The HTML report in a real browser: everything is there, no text overlaps or
// is cut off at the page's edge, and it can be read, in a wide and a narrow
// window, light and dark. Skipped where no Chromium is found.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/command_testing.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

// The path of a Chromium, or "".
std::string FindBrowser() {
  for (const char* name :
       {"/usr/bin/chromium", "/usr/bin/chromium-browser",
        "/usr/bin/google-chrome", "/usr/bin/google-chrome-stable"}) {
    if (access(name, X_OK) == 0) return name;
  }
  return "";
}

// What runs in the page. Text is measured as it is drawn: clipped by ancestors
// that clip, left out where it has no size.
const char kProbe[] = R"js(
function probe() {
  const out = [];
  const doc = document;
  const boxes = [];
  const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.textContent.trim()) continue;
    if (['STYLE', 'SCRIPT'].includes(node.parentElement.tagName)) continue;
    const range = doc.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      let box = {l: r.left, t: r.top, r: r.right, b: r.bottom};
      let scrolls = false;
      for (let e = node.parentElement; e && e !== doc.body;
           e = e.parentElement) {
        const style = getComputedStyle(e);
        if (style.overflowX === 'visible') continue;
        scrolls = scrolls || style.overflowX === 'auto';
        const c = e.getBoundingClientRect();
        box = {l: Math.max(box.l, c.left), t: Math.max(box.t, c.top),
               r: Math.min(box.r, c.right), b: Math.min(box.b, c.bottom)};
      }
      if (box.r - box.l < 1 || box.b - box.t < 1) continue;
      boxes.push({...box, text: node.textContent.trim().slice(0, 40)});
      if (box.l < -1 || box.r > innerWidth + 1) {
        out.push('outside: ' + node.textContent.trim().slice(0, 40));
      }
    }
  }
  boxes.sort((a, b) => a.t - b.t);
  for (let i = 0; i < boxes.length; ++i) {
    for (let j = i + 1; j < boxes.length && boxes[j].t < boxes[i].b; ++j) {
      const a = boxes[i], b = boxes[j];
      // Lines of one paragraph touch: their boxes are taller than their ink.
      if (Math.min(a.r, b.r) - Math.max(a.l, b.l) > 1 &&
          Math.min(a.b, b.b) - Math.max(a.t, b.t) > 3) {
        out.push('overlap: ' + a.text + ' / ' + b.text);
      }
    }
  }
  if (doc.documentElement.scrollWidth > innerWidth + 1) {
    out.push('page wider than the window: ' +
             doc.documentElement.scrollWidth + ' > ' + innerWidth);
  }
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92
                                               : ((v + 0.055) / 1.055) ** 2.4;
  const light = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const page = light(getComputedStyle(doc.body).backgroundColor);
  for (const e of doc.querySelectorAll('p, td, th, h2, .ticks span, .marks b')) {
    const ink = light(getComputedStyle(e).color);
    const ratio = (Math.max(page, ink) + 0.05) / (Math.min(page, ink) + 0.05);
    if (ratio < 4.5) out.push('contrast ' + ratio.toFixed(2) + ': ' +
                              e.className + ' ' + e.textContent.slice(0, 40));
  }
  const canvases = [...doc.querySelectorAll('.canvas')].filter((e) => {
    const r = e.getBoundingClientRect();
    return r.width > 100 && r.height > 20 && e.querySelector('path');
  }).length;
  return 'PROBE width=' + innerWidth + ' texts=' + boxes.length +
         ' canvases=' + canvases + ' bands=' +
         doc.querySelectorAll('.band').length + ' dark=' + (page < 0.2) +
         ' faults=' + out.length + ' ' + out.slice(0, 5).join(' | ') + ' END';
}
addEventListener("load", () => parent.postMessage(probe(), "*"));
)js";

// Of a command, its standard output. "" when it fails.
std::string Output(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char block[4096];
  size_t got = 0;
  while ((got = fread(block, 1, sizeof(block), pipe)) > 0) {
    text.append(block, got);
  }
  return pclose(pipe) == 0 ? text : "";
}

struct Look {
  const char* name;
  int width;
  bool dark;
};

class ReportBrowserTest : public ::testing::TestWithParam<Look> {
 protected:
  void SetUp() override {
    browser_ = FindBrowser();
    if (browser_.empty()) GTEST_SKIP() << "no Chromium is installed";
  }

  std::string browser_;
};

TEST_P(ReportBrowserTest, EverythingIsThereAndNoTextOverlaps) {
  const std::string path = ::testing::TempDir() + "/report.html";
  const CommandResult made = RunCommand(
      {"simulate", "--recipe=delayed_hybrid,delayed_e4m3,tensorwise,blockwise",
       "--trace=tests/data/traces/amax_rank0.csv,"
       "tests/data/traces/amax_rank1.csv",
       "--histograms=tests/data/traces/log2hist_rank0.csv,"
       "tests/data/traces/log2hist_rank1.csv",
       "--report=" + path});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string report = absl::StrReplaceAll(
      FileText(path),
      {{"</body>", absl::StrCat("<script>", kProbe, "</script></body>")}});
  // A frame of the width that is asked for: windows have a least width.
  const std::string frame = NewFile(
      "frame.html",
      absl::StrCat(
          "<!DOCTYPE html><body style=\"margin:0\"><pre id=\"r\">"
          "</pre><script>addEventListener('message', (e) => { "
          "document.getElementById('r').textContent = e.data; });"
          "</script><iframe style=\"border:0;width:",
          GetParam().width, "px;height:900px\" srcdoc=\"",
          absl::StrReplaceAll(report, {{"&", "&amp;"}, {"\"", "&quot;"}}),
          "\"></iframe></body>"));
  const std::string home =
      absl::StrCat(::testing::TempDir(), "/browser_", GetParam().name);
  const std::string dom = Output(absl::StrCat(
      "HOME='", home, "' timeout 120 '", browser_,
      "' --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
      "--no-first-run --user-data-dir='",
      home,
      "/profile' --virtual-time-budget=20000 --window-size=1600,1000 "
      "--blink-settings=preferredColorScheme=",
      GetParam().dark ? 0 : 1, " --dump-dom 'file://", frame, "' 2>/dev/null"));
  const size_t begin = dom.find("PROBE width=");
  ASSERT_NE(begin, std::string::npos) << "the browser gave " << dom.size()
                                      << " bytes without the probe's result";
  const std::string result = dom.substr(begin, dom.find(" END", begin) - begin);
  EXPECT_THAT(result, HasSubstr(absl::StrCat("width=", GetParam().width)));
  EXPECT_THAT(result, HasSubstr(GetParam().dark ? "dark=true" : "dark=false"));
  // The loss, a heat map for each of the three recipes that can be judged and
  // are drawn, six curves; in each the event.
  EXPECT_THAT(result, HasSubstr("canvases=10 bands=10 "));
  EXPECT_THAT(result, HasSubstr("faults=0 "));
}

INSTANTIATE_TEST_SUITE_P(Looks, ReportBrowserTest,
                         ::testing::Values(Look{"WideLight", 1400, false},
                                           Look{"WideDark", 1400, true},
                                           Look{"NarrowLight", 400, false},
                                           Look{"NarrowDark", 400, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace scalekeeper
