#include "observe/report/page.h"

namespace fm::report {
namespace {

// f0 to f11 fill and s0 to s3 stroke with --0 to --11: forward, backward, reduce, gather,
// optimizer, loss, pipe, data, other, three for names that nobody knows.
constexpr const char* kColourSheet = R"(
:root{--page:#f6f7f8;--card:#fff;--ink:#1a1e23;--dim:#59626d;--line:#d5d9de;--grid:#e9ecef;
--0:#2f6fd0;--1:#e0662c;--2:#2a9164;--3:#7a55c7;--4:#d9a514;--5:#cf3f4f;--6:#179aa8;--7:#d468a4;
--8:#a7aeb6;--9:#8a6a4a;--10:#8fb33a;--11:#3f4a8c;--bad:#c62838;--badbg:#fdeeee;color-scheme:light}
@media screen and (prefers-color-scheme:dark){
:root{--page:#121518;--card:#1b1f24;--ink:#e7eaed;--dim:#a2abb5;--line:#3a424b;--grid:#2a3037;
--0:#6aa3f5;--1:#f28b55;--2:#4cbb8c;--3:#a88bec;--4:#e6bd4a;--5:#ef7380;--6:#4bc0cc;--7:#ec93c4;
--8:#6d7681;--9:#bd9b78;--10:#b5d45f;--11:#8f9ae0;--bad:#ff8089;--badbg:#3a2023;color-scheme:dark}}
.f0{fill:var(--0);background:var(--0)}.f1{fill:var(--1);background:var(--1)}
.f2{fill:var(--2);background:var(--2)}.f3{fill:var(--3);background:var(--3)}
.f4{fill:var(--4);background:var(--4)}.f5{fill:var(--5);background:var(--5)}
.f6{fill:var(--6);background:var(--6)}.f7{fill:var(--7);background:var(--7)}
.f8{fill:var(--8);background:var(--8)}.f9{fill:var(--9);background:var(--9)}
.f10{fill:var(--10);background:var(--10)}.f11{fill:var(--11);background:var(--11)}
.s0{stroke:var(--0);background:var(--0)}.s1{stroke:var(--1);background:var(--1)}
.s2{stroke:var(--2);background:var(--2)}.s3{stroke:var(--3);background:var(--3)}
)";

constexpr const char* kPageSheet = R"(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 40px}
header{margin-bottom:20px}
h1{font-size:28px;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:28px 0 10px}
header p,footer{color:var(--dim);margin:0}
footer{margin-top:32px;font-size:13px}
.note{background:var(--badbg);border-left:4px solid var(--bad);padding:8px 12px;margin:0 0 12px}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:12px;margin:0 0 16px}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
dt{color:var(--dim);font-size:13px}
dd{margin:0;color:var(--dim);font-size:13px;line-height:1.35}
dd.value{color:var(--ink);font-size:25px;font-weight:600;line-height:1.3;
font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:14px 16px 12px;overflow-x:auto}
figure.wide{grid-column:1/-1}
figcaption{font-weight:600;margin-bottom:6px}
figcaption small{color:var(--dim);font-weight:400;font-size:.87em;margin-left:4px}
svg{display:block;width:100%;height:auto;overflow:visible}
figure.wide svg{min-width:700px}
table{border-collapse:collapse;min-width:60%;background:var(--card);
font-variant-numeric:tabular-nums;border:1px solid var(--line);font-size:14px}
th,td{padding:6px 12px;text-align:right;vertical-align:top;border-bottom:1px solid var(--grid)}
th{color:var(--dim);font-weight:600}
th:first-child,td:first-child{text-align:left}
td.text,th.text{text-align:left;overflow-wrap:anywhere}
tr.best td{font-weight:600}
.scroll{overflow-x:auto}
details table{margin-top:8px;font-size:13px}
summary{cursor:pointer}
.changed td{font-weight:600}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:8px 0 0;padding:0;
font-size:13px;color:var(--dim)}
.legend li{display:flex;align-items:center;gap:6px}
.legend i{width:18px;height:3px;border-radius:2px;flex:none}
.legend .faint{opacity:.4}
.legend .dot{width:9px;height:9px;border-radius:50%}
.legend .area{width:12px;height:12px}
.legend .mark{width:0;height:0;border:5px solid transparent;border-bottom:9px solid var(--bad);
border-top:0}
.legend .start{width:0;height:13px;border-left:2px dashed var(--dim);border-radius:0}
)";

constexpr const char* kPictureSheet = R"(
svg text{font-size:12px;fill:var(--dim);font-variant-numeric:tabular-nums}
text.y{text-anchor:end;dominant-baseline:middle}
text.x{text-anchor:middle}
.grid,.axis,.tick,.start,.line,.faint,.thin{fill:none;stroke-linejoin:round;stroke-linecap:round}
.grid{stroke:var(--grid)}
.axis,.tick{stroke:var(--line)}
svg .start{stroke:var(--dim);stroke-dasharray:3 4;stroke-linecap:butt}
.line{stroke-width:2}
svg .faint{stroke-width:1;opacity:.4}
.thin{stroke-width:1;opacity:.6}
.area{shape-rendering:crispEdges}
svg .dot{stroke:var(--card);stroke-width:1}
svg .mark{fill:var(--bad)}
.idle{fill:var(--grid)}
@media (max-width:860px){
.charts{grid-template-columns:minmax(0,1fr)}.tiles{grid-template-columns:repeat(2,1fr)}}
@media print{
@page{margin:12mm}
body{background:#fff;font-size:12px;-webkit-print-color-adjust:exact;print-color-adjust:exact}
main{max-width:none;padding:0}
.charts{grid-template-columns:repeat(2,minmax(0,1fr));gap:10px}
.tiles{grid-template-columns:repeat(4,1fr);gap:8px}
dt,dd,.legend,table,details table{font-size:11px}
th,td{padding:3px 10px}
dd.value{font-size:19px}
svg text{font-size:16px}
figure,.tiles div,tr{break-inside:avoid}
figure{overflow:hidden}
figure.wide svg{min-width:0}
h2{break-after:avoid}}
)";

}  // namespace

std::string style() { return std::string(kColourSheet) + kPageSheet + kPictureSheet; }

}  // namespace fm::report
