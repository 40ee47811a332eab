/* progress.h: a line on standard error while compiling takes long. */
#ifndef NST_TOOLS_PROGRESS_H
#define NST_TOOLS_PROGRESS_H

#include "tools/tool.h"

/* Has the engine tell of compiling, if the options and standard error ask for it. */
void tool_progress_ask(const ToolOptions *options, NstEngineOptions *engine);

/* Takes the line away, if there is one: compiling is over, or something else is to be said. */
void tool_progress_clear(void);

#endif
