"""Every code that a diagnostic may carry: what it means, what to do, and what the shell gets.

`docs/errors.md` is made from these tables. A test reads the source of the package and compares: no code is used that
is not here, and none is here that is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.diagnostics import ExitCode

OK, USAGE, INVALID = ExitCode.OK, ExitCode.USAGE, ExitCode.INVALID
NOT_APPLIED, FAILED, MISMATCH = ExitCode.NOT_APPLIED, ExitCode.CHECK_FAILED, ExitCode.MISMATCH


@dataclass(frozen=True)
class Code:
    """One code. `exits` are the exit codes of a run that ends with it, the usual one first."""

    title: str
    meaning: str
    advice: str
    exits: tuple[ExitCode, ...]


@dataclass(frozen=True)
class Family:
    """All codes that begin alike."""

    prefix: str
    title: str


FAMILIES: tuple[Family, ...] = (
    Family("E1", "The document and the workspace"),
    Family("E2", "The pipeline"),
    Family("E3", "Where trees come from"),
    Family("E4", "Edits"),
    Family("E5", "Checks and house rules"),
    Family("E6", "Lock and audit"),
    Family("E7", "Writing"),
    Family("E8", "A Dockerfile and its scripts"),
    Family("E9", "Measuring"),
    Family("W", "Warnings"),
)

CODES: dict[str, Code] = {
    "E101": Code(
        "file too large",
        "A YAML file is over the size cap. The cap is there because reading YAML is slow.",
        "Split the file, or remove generated parts.",
        (INVALID,),
    ),
    "E102": Code(
        "empty document",
        "The file is empty, or holds comments only.",
        "Write a pipeline, or let `orchestrator init` write one.",
        (INVALID,),
    ),
    "E103": Code(
        "not readable as YAML or JSON",
        "The text breaks the rules of YAML 1.2, is no mapping at the top, or is no JSON where a check reads JSON.",
        "Correct the text at the place shown. A colon or a brace in code often wants quotes around the value.",
        (INVALID, FAILED),
    ),
    "E104": Code(
        "not UTF-8",
        "A byte of the file is no UTF-8 text.",
        "Save the file as UTF-8.",
        (INVALID,),
    ),
    "E105": Code(
        "tab as indentation",
        "A tab indents a line. YAML indents with blanks.",
        "Replace the tab by blanks.",
        (INVALID,),
    ),
    "E106": Code(
        "key or tag of an unusual kind",
        "A key is not a string, or a value carries a YAML tag that is not supported.",
        "Write the key in quotes; use plain values.",
        (INVALID,),
    ),
    "E107": Code(
        "alias too large",
        "An alias points into itself, or aliases multiply into more nodes than anyone writes.",
        "Write the value out.",
        (INVALID,),
    ),
    "E108": Code(
        "key given twice",
        "A mapping has the same key twice. One of the two would be lost in silence.",
        "Keep one of the two.",
        (INVALID,),
    ),
    "E109": Code(
        "value read as another type",
        "YAML reads the value as something else than its text looks like: `0.10` as 0.1, `1e3` as a number.",
        "Write it in quotes if it is text, or in plain digits if it is a number.",
        (INVALID,),
    ),
    "E110": Code(
        "unknown key",
        "The model at this place has no such key.",
        "Correct the key; the nearest one is shown.",
        (INVALID,),
    ),
    "E111": Code(
        "key missing",
        "A key without which the entry means nothing is not there.",
        "Add the key.",
        (INVALID,),
    ),
    "E112": Code(
        "unknown edit or check",
        "`op:` or `check:` names a kind that does not exist.",
        "Correct the name; `docs/reference.md` lists them all.",
        (INVALID,),
    ),
    "E113": Code(
        "text expected",
        "The key takes text and YAML reads the value as a number or as true or false.",
        "Write the value in quotes.",
        (INVALID,),
    ),
    "E114": Code(
        "value does not fit",
        "The value has the wrong type or shape for this key, or keys of the entry contradict each other.",
        "Read what was found and what the key takes.",
        (INVALID,),
    ),
    "E115": Code(
        "target cannot be extended",
        "`extends:` names a file that cannot be read or is no mapping, or targets extend each other in a circle.",
        "Name a target file relative to this one.",
        (INVALID,),
    ),
    "E120": Code(
        "file not in the workspace",
        "A file that the pipeline names does not exist.",
        "Create it, or correct the path.",
        (INVALID, USAGE),
    ),
    "E121": Code(
        "file cannot be read",
        "The system refuses to read a file of the workspace.",
        "Check its permissions.",
        (INVALID, USAGE),
    ),
    "E122": Code(
        "path leaves the workspace",
        "A path is absolute, has `..`, or goes through a link to somewhere else.",
        "Copy the file into the workspace and name it relative to `pipeline.yaml`.",
        (INVALID, USAGE),
    ),
    "E123": Code(
        "file over the size cap",
        "A file of the workspace is larger than any patch has reason to be.",
        "Check whether it is the right file.",
        (INVALID,),
    ),
    "E124": Code(
        "not an ordinary file",
        "The path names a folder, a pipe or a device.",
        "Name a file.",
        (INVALID, USAGE),
    ),
    "E125": Code(
        "not text",
        "A template is no UTF-8, or a Python file to deploy is binary.",
        "Save it as UTF-8; deploy source, not compiled files.",
        (INVALID,),
    ),
    "E126": Code(
        "no such workspace",
        "The folder that `--workspace` names does not exist.",
        "Correct the path.",
        (USAGE,),
    ),
    "E127": Code(
        "no audit to read",
        "`audit` was pointed at something that cannot be read.",
        "Render first, or name the log.",
        (USAGE,),
    ),
    "E128": Code(
        "no former render to compare with",
        "`--against` names a folder without a patch set's manifest, its Dockerfile or the run configuration.",
        "Name a folder that `render` wrote.",
        (USAGE,),
    ),
    "E129": Code(
        "no file to look at",
        "`match` was given a file that is neither on disk nor in the base tree, cannot be read, or is no Python.",
        "Name a Python file, or one of the package as the tree calls it: its package root comes first.",
        (USAGE,),
    ),
    "E130": Code(
        "target path is not plain",
        "A path in the package is absolute, has `..` or `//`, or names a package root itself.",
        "Write it as `ROOT/…/file.py`.",
        (INVALID,),
    ),
    "E131": Code(
        "not a package root",
        "The path, or `--tree`, begins with a name that is not one of the target's `roots`.",
        "Correct the name, or add the root to the target.",
        (INVALID, USAGE),
    ),
    "E132": Code(
        "git cannot be asked",
        "There is no git, no repository around the workspace, or git itself fails. What changed is asked of git.",
        "Run it in a checkout; the message has git's own words.",
        (USAGE,),
    ),
    "E133": Code(
        "no such revision",
        "The revision names no commit of this repository, or two revisions have no common ancestor.",
        "Name a commit, a branch or a tag. A shallow clone has only the newest commits.",
        (USAGE,),
    ),
    "E134": Code(
        "tree and image together",
        "`--image` was given with `--tree`, or `--which` without `--image`: it is not clear what to look at.",
        "Give one of them.",
        (USAGE,),
    ),
    "E135": Code(
        "no base to bump to",
        "`bump` or `lock --to` was told no release, or one that cannot be taken: no requirement, a package that fills "
        "no package root of the target, a range that no release fits.",
        "Write NAME==VERSION or a range such as `NAME>=1.2,<2`, or name a tree or an image.",
        (USAGE,),
    ),
    "E140": Code(
        "copy of a source that no stage uses",
        "A file of the workspace ends in the same two names as a file that a stage writes, or is nearly the same as a "
        "source that a stage uses, and no stage uses it. Whoever edits it wonders why nothing changes. Not looked at "
        "are folders named tests, examples or build, hidden ones, environments, and what git ignores. A stage that is "
        "off still uses its sources.",
        "Remove the copy or let a stage use it. One that is kept on purpose is declared at the top of the pipeline: "
        "`waive: [{rule: E140, about: PATH, because: …}]`.",
        (INVALID,),
    ),
    "E142": Code(
        "source that git ignores",
        "A stage uses a file that `.gitignore` excludes: the build works here, and never from a fresh clone.",
        "Take it out of `.gitignore` and commit it, or waive it with the reason.",
        (INVALID,),
    ),
    "E201": Code(
        "unknown parameter",
        "A variant or `--set` names a parameter that `params:` does not have.",
        "Correct the name; the nearest one is shown.",
        (INVALID, USAGE),
    ),
    "E202": Code(
        "unknown variant",
        "`--variant` names a variant that the pipeline does not have.",
        "Correct the name.",
        (USAGE,),
    ),
    "E203": Code(
        "parameter value does not fit",
        "`--set` is not NAME=VALUE, or a value is of another type than the parameter has in `params:`.",
        "Write `--set max_num_seqs=16`, and give a number for a number.",
        (INVALID, USAGE),
    ),
    "E204": Code(
        "unknown value",
        "A dotted reference such as `${params.x}` names nothing, or a figure that the target says is unknown.",
        "Correct the name; or measure the figure and enter it in the target.",
        (INVALID,),
    ),
    "E205": Code(
        "reference where none can stand",
        "`${…}` is no hole and no value, is a hole outside of code, or stands inside a string literal of a pattern.",
        "Use bare names for holes and dotted names for values; write `$${` for a literal `${`.",
        (INVALID,),
    ),
    "E206": Code(
        "code that cannot be used",
        "Code in the YAML is empty, is not Python, matches anything, or is no expression or import where one is asked.",
        "Correct the code at the place shown.",
        (INVALID, FAILED),
    ),
    "E207": Code(
        "hole not bound",
        "The new code uses a hole that the pattern does not have.",
        "Use a hole of `match`, or a dotted value.",
        (INVALID,),
    ),
    "E210": Code(
        "stage id given twice",
        "Two stages have the same id.",
        "Give one of them another id.",
        (INVALID,),
    ),
    "E211": Code(
        "unknown stage",
        "`needs`, `until` or the argument of `diff` names a stage that does not exist.",
        "Correct the name; the nearest one is shown.",
        (INVALID, USAGE),
    ),
    "E212": Code(
        "stage needs itself",
        "A stage names itself in `needs`.",
        "Remove this need.",
        (INVALID,),
    ),
    "E213": Code(
        "cycle of needs",
        "Stages need each other in a circle; the path is shown.",
        "Remove one of these needs.",
        (INVALID,),
    ),
    "E214": Code(
        "not exactly one of a group",
        "Of the stages with one `one_of`, none or several are enabled, or the group has a stage's name.",
        "Enable one of them and set `enabled: false` on the others.",
        (INVALID,),
    ),
    "E220": Code(
        "not a transform",
        "The file in `stages/` does not define `class Params(BaseModel)` and `transform(module, params)`.",
        "Define both; see the guide, transforms.",
        (INVALID,),
    ),
    "E221": Code(
        "unknown transform",
        "`use:` names a transform that has no file in `stages/`.",
        "Create `stages/NAME.py`, or correct the name.",
        (INVALID,),
    ),
    "E222": Code(
        "transform parameters do not fit",
        "The transform's own `Params` model refuses what `params:` gives.",
        "Give what the transform takes.",
        (INVALID,),
    ),
    "E230": Code(
        "template cannot be read",
        "A jinja2 template has a syntax error.",
        "Mend the template at the place shown.",
        (INVALID,),
    ),
    "E231": Code(
        "undefined name in a template",
        "A template uses a value that it is not given.",
        "Correct the name; templates get `params`, `device`, `model`, `engine`, `target` and `provided`.",
        (INVALID,),
    ),
    "E232": Code(
        "template fails",
        "A template raises an error while it is rendered.",
        "Mend the template.",
        (INVALID,),
    ),
    "E233": Code(
        "two files of one name",
        "An artefact has the name of a file that `render` writes itself, or of another artefact.",
        "Give the artefact another name.",
        (INVALID,),
    ),
    "E240": Code(
        "a wheel that cannot be meant",
        "A name under `wheels:` is not that of a wheel, its version is none, or two stages bring one distribution.",
        "Name one wheel of each distribution, as NAME==VERSION or by a file that keeps its built name.",
        (INVALID,),
    ),
    "E250": Code(
        "a module that cannot be asked",
        "`live:` names no file that its stage deploys, or one without a function `live()` that takes no arguments.",
        "Name a deployed Python file, and define `live()` in it.",
        (INVALID,),
    ),
    "E260": Code(
        "nothing to compile with, or nothing to compile",
        "A stage's `compile:` names a source that the stage does not deploy, writes a file that is written already, or "
        "the target names no compiler and the stage does not ask for one.",
        "Deploy the source in the same stage; name the compiler under `compiler:` of the target, or put "
        "`{check: compiler_named}` into the stage's `when:` so that it is skipped without one.",
        (INVALID,),
    ),
    "E270": Code(
        "two cells of one name",
        "With `--matrix`: two targets have one name, a target is listed twice, a variant is called `default`, or two "
        "variants differ in case alone. The names are those of folders.",
        "Give one of them another name.",
        (INVALID,),
    ),
    "E271": Code(
        "a variant's name is none for a folder",
        "With `--matrix` each variant has a folder, and this name cannot be that of one.",
        "Use letters, digits, `.`, `_` and `-`, and begin with a letter or a digit.",
        (INVALID,),
    ),
    "E272": Code(
        "no such cell",
        "`--cell` names a target and a variant that the matrix does not have.",
        "Write TARGET/VARIANT; the parameters without a variant are called `default`.",
        (USAGE,),
    ),
    "E280": Code(
        "an installed transform or check is broken",
        "What the entry point names cannot be imported, is of the wrong kind, or its source cannot be read. The "
        "distribution is named.",
        "Mend or update the distribution.",
        (INVALID,),
    ),
    "E281": Code(
        "two entry points of one name",
        "Two distributions, or two entry points of one, bring a transform or a check of the same name. Both places "
        "are named.",
        "Uninstall one, or let its author rename the entry point.",
        (INVALID,),
    ),
    "E301": Code(
        "source not in the cache and not reachable",
        "The source distribution of the base is not cached, and the index cannot be asked or does not answer.",
        "Run the command once with network, or put the file where the message says.",
        (INVALID,),
    ),
    "E302": Code(
        "source is another file",
        "The source distribution does not have the digest of the lock or of the index.",
        "Find out which of the two is right before you go on.",
        (MISMATCH,),
    ),
    "E303": Code(
        "no such source distribution",
        "The requirement does not name one version, or no index has it.",
        "Write NAME==VERSION; name an index that has it.",
        (INVALID,),
    ),
    "E304": Code(
        "archive or folder cannot be used",
        "It is damaged, too large, holds the package not at all or more than once, or names places outside of itself.",
        "Pack the package folder itself: `tar -C PARENT -c PACKAGE`.",
        (USAGE,),
    ),
    "E305": Code(
        "link leaves the package",
        "A link in the package points to a file outside of it. A tree holds only what lies in the package.",
        "Put a copy of the file in its place.",
        (USAGE,),
    ),
    "E306": Code(
        "entry or cache cannot be used",
        "A file of a package cannot be read, has no plain name or is a dangling link; or the cache cannot be used.",
        "Check permissions; set ORCHESTRATOR_CACHE to another folder. A dangling link is only a warning.",
        (USAGE, OK),
    ),
    "E307": Code(
        "no such package folder",
        "The folder that `--tree` names does not exist, is none, or cannot be listed.",
        "Correct the path.",
        (USAGE,),
    ),
    "E308": Code(
        "base must be supplied",
        "The target's base cannot be fetched: its `supplied:` says how to get it.",
        "Hand it over with `--tree ROOT=PATH`.",
        (USAGE,),
    ),
    "E309": Code(
        "base workspace does not apply",
        "The target's base is made by another workspace, and the pipeline there fails.",
        "Run `orchestrator plan -C FOLDER` to see that pipeline alone.",
        (NOT_APPLIED, FAILED),
    ),
    "E310": Code(
        "a wheel that cannot be used",
        "A wheel says inside that it is another, is not what its own list of files says, or brings no package root.",
        "Get or build it anew; declare the package that it brings under `roots` of the target.",
        (INVALID,),
    ),
    "E311": Code(
        "a wheel too many",
        "`wheels/` has a wheel that no stage names, or several that fit one name.",
        "Remove what is not meant, or name the file with `source:`.",
        (INVALID,),
    ),
    "E312": Code(
        "copies of one package differ",
        "The image has two folders for one package root, and they do not hold the same: which is imported, decides.",
        "Patch both, or remove the one that is not meant.",
        (NOT_APPLIED,),
    ),
    "E401": Code(
        "file gone",
        "The tree has no such file.",
        "Correct the path; files of the same name are shown.",
        (NOT_APPLIED, FAILED),
    ),
    "E402": Code(
        "scope gone",
        "The file has no definition of the name in `within:`.",
        "Correct `within:`; the nearest name is shown.",
        (NOT_APPLIED, FAILED),
    ),
    "E403": Code(
        "pattern gone",
        "The pattern matches nowhere in the scope. The nearest code is shown, or that there is no candidate.",
        "Compare, and write the pattern as the code is now. Nothing is ever inserted somewhere instead.",
        (NOT_APPLIED,),
    ),
    "E404": Code(
        "rewritten by another stage",
        "The pattern matched in the base; an earlier stage rewrote the definition.",
        "Write the pattern for what that stage leaves, or order the stages the other way.",
        (NOT_APPLIED,),
    ),
    "E405": Code(
        "too many sites",
        "The pattern matches more sites than `count`, or a qualified name has several definitions.",
        "Narrow the pattern or the scope, or say `count:`.",
        (NOT_APPLIED, FAILED),
    ),
    "E406": Code(
        "matches its own result",
        "After the edit, its pattern would match and change the code again. Such an edit cannot be told from applied.",
        "Say more in the pattern, or let the transform leave changed code alone.",
        (NOT_APPLIED,),
    ),
    "E407": Code(
        "name not bound",
        "Inserted code reads a name that is not bound on every path before the site.",
        "Import or define it first, or read something that is bound there.",
        (NOT_APPLIED,),
    ),
    "E408": Code(
        "not valid Python",
        "A file, or a transform, does not parse.",
        "Mend the code at the place shown.",
        (NOT_APPLIED, INVALID, FAILED),
    ),
    "E409": Code(
        "cannot be decoded",
        "A file's bytes do not fit its coding line, or new code cannot be written in the file's encoding.",
        "Correct the coding line, or write the new code in ASCII.",
        (NOT_APPLIED, FAILED),
    ),
    "E410": Code(
        "site cannot be edited",
        "The match is inside an f-string, shares its line with other code, or is no place for what is put there.",
        "Match the whole statement instead.",
        (NOT_APPLIED,),
    ),
    "E411": Code(
        "result does not parse",
        "The file would not be valid Python after the edit.",
        "Look at the inserted code, or at the transform.",
        (NOT_APPLIED,),
    ),
    "E412": Code(
        "import would shadow",
        "The imported name is bound to something else in this scope.",
        "Import it under another name with `as`.",
        (NOT_APPLIED,),
    ),
    "E413": Code(
        "partly applied",
        "Some of the stage is in the tree and some is not.",
        "Start from the base, or find out who wrote the applied part.",
        (NOT_APPLIED,),
    ),
    "E414": Code(
        "file does not survive libcst",
        "libcst cannot read the file, or would not print it back byte for byte. So no transform touches it.",
        "Write the change as an edit: edits keep every other byte.",
        (NOT_APPLIED,),
    ),
    "E415": Code(
        "transform fails",
        "The transform raises an error, or returns something else than a module.",
        "Mend the transform at the line shown.",
        (NOT_APPLIED, INVALID),
    ),
    "E416": Code(
        "transform changes nothing",
        "A transform leaves its file as it is: it is applied already, or what it looks for is gone.",
        "If it is applied already, `orchestrator lock` on the base makes that known.",
        (NOT_APPLIED,),
    ),
    "E417": Code(
        "file in the way",
        "A file to deploy exists already.",
        "Say `replaces:` with the reason if the whole file is meant to go, or change it by edits.",
        (NOT_APPLIED,),
    ),
    "E419": Code(
        "edited before its wheel",
        "A stage wrote into a package that a later stage replaces by a wheel. Wheels go into the image first.",
        "Let the editing stage need the one with the wheel.",
        (NOT_APPLIED,),
    ),
    "E501": Code(
        "does not parse for the target's Python",
        "House rule: a touched file must parse for the Python of the image.",
        "Use only syntax that this version knows.",
        (FAILED,),
    ),
    "E502": Code(
        "import does not resolve",
        "House rule: an import of a touched file, a statement or a call of `import_module`, names something that is "
        "neither in the tree nor in the inventory. Or a touched file lost a name that another one still uses.",
        "Deploy the module, correct the import, keep the name, or enter the package in the target.",
        (FAILED,),
    ),
    "E503": Code(
        "name bound nowhere",
        "House rule: a touched file reads a name that nothing binds, or takes one from a module of the tree that does "
        "not bind it.",
        "Import or define it.",
        (FAILED,),
    ),
    "E504": Code(
        "name bound only where it never is",
        "House rule: a name is bound only under a condition that the facts make false, and read elsewhere.",
        "Bind it on the other path too, or do not read it there.",
        (FAILED,),
    ),
    "E505": Code(
        "target under a runtime mount",
        "House rule: what is written there, by a stage or by a wheel, is hidden when the container starts.",
        "Do it when the container starts, not in the image.",
        (INVALID, FAILED),
    ),
    "E506": Code(
        "undeclared write to a package's `__init__.py`",
        "House rule: that file runs before all that is in the package, and a second layer of patches hides there well. "
        "The `__init__.py` of a package that the run itself brings is none of these.",
        "Patch the module that is meant. Where the file itself is meant, declare it in the stage: "
        "`waive: [{rule: E506, about: PACKAGE, because: …}]`.",
        (FAILED,),
    ),
    "E507": Code(
        "call does not fit",
        "House rule: a call of a changed definition, or a call in changed code, does not bind to the signature.",
        "Change the call, or give the definition the parameters that its callers pass.",
        (FAILED,),
    ),
    "E508": Code(
        "unknown vendor symbol",
        "House rule: changed code takes from a compiled vendor module a name that the inventory of the target lacks.",
        "Use a name that is there, guard the access, or enter the name under `vendor_modules` of the target.",
        (FAILED,),
    ),
    "E510": Code(
        "two stages write one definition",
        "Two stages change the same definition and neither needs the other, so their order is an accident.",
        "Let one of them need the other.",
        (FAILED,),
    ),
    "E512": Code(
        "edit where the code never runs",
        "House rule: what an edit changes stands behind a gate that this target never passes, so it has no effect.",
        "Edit the branch that this target takes, or mend the flag or the fact that decides it.",
        (FAILED,),
    ),
    "E513": Code(
        "brought, and reached by nobody",
        "House rule: nothing reads a constant, calls a function or imports a module that the run brings.",
        "Use it, leave it out, or waive the rule with the reason: who reaches it, and how.",
        (FAILED,),
    ),
    "E514": Code(
        "registry entry that leads nowhere",
        "House rule: a new entry of a table names a module that is not where the other entries have theirs, or a name "
        "that it does not define.",
        "Let a stage deploy the module, or correct the entry.",
        (FAILED,),
    ),
    "E515": Code(
        "rests on a stage that it does not need",
        "An edit matches code that only an earlier stage writes, or a transform does nothing without it, and its stage "
        "does not need that one.",
        "Add the stage to `needs`.",
        (FAILED,),
    ),
    "E516": Code(
        "stage has expired",
        "`expires:` of the stage names a version, and the base is a later one. What a version adds behind `+` does not "
        "count.",
        "Look whether the stage is still needed: remove it, retire it with `upstream:`, or set a later version.",
        (FAILED,),
    ),
    "E520": Code(
        "pre-check fails",
        "The tree that reaches the stage is not what the stage expects.",
        "Read the evidence; adapt the stage to the code.",
        (FAILED,),
    ),
    "E521": Code(
        "post-check fails",
        "The stage does not do what it promises.",
        "Read the evidence; mend the edits or the check.",
        (FAILED,),
    ),
    "E522": Code(
        "post-check lost",
        "The check held after its stage and does not hold at the end: a later stage undoes the work.",
        "Order the stages, or say `until: STAGE` if it need not hold to the end.",
        (FAILED,),
    ),
    "E523": Code(
        "two stages provide different values",
        "Two stages bring the same flag or environment variable with different values.",
        "Let one stage provide it.",
        (FAILED,),
    ),
    "E530": Code(
        "path leads nowhere",
        "The `path:` of a check cannot be read, or leads to no value of the artefact.",
        "Correct `path:`; what is there is shown.",
        (FAILED,),
    ),
    "E531": Code(
        "figure missing",
        "A check needs a figure that the target does not have, or that is no number.",
        "Add the figure to the target, or give it in the check.",
        (FAILED,),
    ),
    "E532": Code(
        "option value is of no use",
        "An option of the run configuration has a value that the engine will not take.",
        "Give it a whole number, in quotes; leave a switch bare.",
        (FAILED,),
    ),
    "E540": Code(
        "engine rule broken",
        "The engine refuses this combination of options when it starts; the message has the rule and the legal values.",
        "Give one of the legal values.",
        (FAILED,),
    ),
    "E541": Code(
        "option or value that the server does not know",
        "The server in the patched tree refuses an option or its value: misspelt, or the stage that brings it is off.",
        "Correct it, or switch on the stage that brings it.",
        (FAILED,),
    ),
    "E542": Code(
        "context longer than the KV cache",
        "By the target's figures the KV cache has too few blocks for one sequence of the context length.",
        "Lower `--max-model-len` to the value shown, or leave the cache more memory.",
        (FAILED,),
    ),
    "E543": Code(
        "environment that cannot be taken here",
        "A variable has a value that this device does not take, or `LD_PRELOAD` names a file that is not in the image.",
        "Remove the variable, or enter the file in the target.",
        (FAILED,),
    ),
    "E544": Code(
        "required variable lost",
        "A variable of the target's `required_env` is set to another value, or by none of image, Dockerfile and env.",
        "Set it in one of them.",
        (FAILED,),
    ),
    "E601": Code(
        "lock cannot be read",
        "`pipeline.lock` is damaged, or of another version.",
        "Restore it from version control, or remove it and run `orchestrator lock`.",
        (MISMATCH,),
    ),
    "E602": Code(
        "not in the lock",
        "With `--locked`: an input, a source or a definition is not the one in the lock, a source is gone or "
        "one too many, or there is no lock.",
        "Look at the change, then bless it with `orchestrator lock`.",
        (MISMATCH,),
    ),
    "E610": Code(
        "not an audit record",
        "A line of the log is no audit record, or the log is no UTF-8.",
        "Do not trust this log; render again.",
        (MISMATCH,),
    ),
    "E611": Code(
        "record edited",
        "The record's digest does not fit its content.",
        "Do not trust this log; find out who changed it.",
        (MISMATCH,),
    ),
    "E612": Code(
        "chain broken",
        "The record does not follow the one before it: a line was removed, added or moved.",
        "Do not trust this log; find out who changed it.",
        (MISMATCH,),
    ),
    "E613": Code(
        "log cut off",
        "The end of the log is missing.",
        "Do not trust this log; render again.",
        (MISMATCH,),
    ),
    "E614": Code(
        "files differ from the log",
        "A file of the folder is not the one that the audit names.",
        "Render again; nothing in the folder is written by hand.",
        (MISMATCH,),
    ),
    "E615": Code(
        "log and tree disagree",
        "The audit names other code than the tree has. The tree was changed after the run, or is not the run's.",
        "Trust the tree: compare, then render and build again. `--audit` names another log.",
        (MISMATCH,),
    ),
    "E700": Code(
        "wrong usage",
        "The command line has an option or a value that the command does not take, or its output cannot be written.",
        "Look at `--help` of the command.",
        (USAGE,),
    ),
    "E701": Code(
        "cannot be written",
        "The system refuses to write. What was there before is untouched.",
        "Check space and permissions, or choose another folder with `--output`.",
        (USAGE,),
    ),
    "E702": Code(
        "something is in the way",
        "The place to write holds files that are not ours. They are never overwritten.",
        "Move them away, or choose another folder.",
        (USAGE,),
    ),
    "E703": Code(
        "another run is writing",
        "Two runs want to write the same folder at the same time, or the lock was written while a render read it.",
        "Wait for the other one and run again, or choose another folder with `--output`.",
        (USAGE,),
    ),
    "E801": Code(
        "exit status lost",
        "A command that matters fails and the build goes on: a pipe, `;`, `|| true`, `&`, `$(…)`, or no `set -e`.",
        "Let it fail: `&&` between steps, `set -euo pipefail` in bash, `exit 1` in the branch.",
        (FAILED,),
    ),
    "E802": Code(
        "failure hidden in a Python script",
        "An exception is caught and dropped around a step that changes files, or nobody asks whether a command failed.",
        "Let it raise; give `check=True`.",
        (FAILED,),
    ),
    "E803": Code(
        "status that this shell does not have",
        "`${PIPESTATUS[…]}` is asked under `sh`, Docker's default shell, which does not know it.",
        "Use bash with pipefail, by SHELL, or do without the pipe.",
        (FAILED,),
    ),
    "E810": Code(
        "source not there",
        "A file that a build step needs is not in the build context, or not in the image at that point.",
        "Correct the path; it counts from the top of the build context.",
        (FAILED,),
    ),
    "E811": Code(
        "source left out of the build context",
        "The file is in the folder, and `.dockerignore` leaves it out.",
        "Take it back with a line that begins with `!`, behind the one that leaves it out.",
        (FAILED,),
    ),
    "E812": Code(
        "source behind a link",
        "A link leads out of the build context or to nothing, so the builder does not find what it stands for.",
        "Put a copy of the file in its place.",
        (FAILED,),
    ),
    "E813": Code(
        "relative path in the wrong working directory",
        "A relative path is looked for in the working directory in force, and is not there.",
        "Name it by its full path, or relative to the script.",
        (FAILED,),
    ),
    "E820": Code(
        "not for the image's Python",
        "A script, or a file that is deployed, does not parse for the Python of the image.",
        "Use only syntax that this version knows.",
        (FAILED,),
    ),
    "E821": Code(
        "not readable as shell",
        "A script or a RUN breaks the rules of the shell.",
        "Correct it at the place shown.",
        (FAILED,),
    ),
    "E822": Code(
        "not readable as a Dockerfile",
        "A line is no instruction, or one has no end or nothing to say.",
        "Correct it at the place shown.",
        (FAILED,),
    ),
    "E830": Code(
        "replacement that a missing anchor does not stop",
        "A script or `sed -i` replaces text, and succeeds where the text is not found.",
        "Count the matches before and fail, or look for the new text afterwards.",
        (FAILED,),
    ),
    "E831": Code(
        "patch that may do nothing or the wrong thing",
        "`patch` with fuzz edits another place; `git apply` in a subfolder of a repository does nothing; both succeed.",
        "Give `--fuzz=0`; run `git apply` at the top of the repository.",
        (FAILED,),
    ),
    "E832": Code(
        "marker that proves nothing",
        "A text, or that a file is there, is taken for a sign that the patch is in, and the original has it too.",
        "Ask for text that only the patched file has, or compare digests.",
        (FAILED,),
    ),
    "E833": Code(
        "copy over an earlier patch",
        "A whole file is copied, written or linked over one that an earlier step has changed.",
        "Copy first and edit afterwards, or bring both into one file.",
        (FAILED,),
    ),
    "E834": Code(
        "package installed after its patches",
        "A package is installed, or may be, after patches of it were applied.",
        "Install before the patches, or not at all.",
        (FAILED,),
    ),
    "E835": Code(
        "table entry without its module",
        "An entry `name → (module, class)` is added, and no step puts the module into the image.",
        "Copy the module, or remove the entry.",
        (FAILED,),
    ),
    "E901": Code(
        "extra not installed",
        "The command needs packages that are not dependencies of the program itself.",
        "Install the extra that is named.",
        (USAGE,),
    ),
    "E902": Code(
        "nothing of that name to tune",
        "The operation, the type or a shape is not one that the table of configurations or the kernels know.",
        "Correct the name; the nearest one is shown.",
        (USAGE,),
    ),
    "E903": Code(
        "the workspace cannot be tuned",
        "It brings no kernels, its table of configurations cannot be read, or the table has no such row.",
        "Mend the table, or ask for what it has a row for.",
        (INVALID,),
    ),
    "E904": Code(
        "no compiler",
        "No interpreter that is known has a Triton that the device's rows have to be compiled by.",
        "Name one with --python.",
        (USAGE,),
    ),
    "E905": Code(
        "storage of the study cannot be used",
        "It cannot be opened, read or written, or holds something else than studies.",
        "Check the address, its permissions and its space; another --storage starts afresh.",
        (USAGE,),
    ),
    "E906": Code(
        "study of another search",
        "A study of that name exists whose values cannot be compared with new ones: another device, other shapes, "
        "another row of the table, another compiler, or ranks instead of times.",
        "Name another study.",
        (USAGE,),
    ),
    "E907": Code(
        "model and compiler disagree",
        "The compiler needs more shared memory for a row than the table's model says. The model's limits mean "
        "nothing until they agree.",
        "Correct the model of shared memory in the table.",
        (FAILED,),
    ),
    "E908": Code(
        "the table cannot be edited",
        "The place where measured rows stand is not there, is no tuple of rows, or the edited table does not load.",
        "Give the table its tuple of measured rows.",
        (NOT_APPLIED,),
    ),
    "E910": Code(
        "server command cannot be used",
        "There is no server command, it has a placeholder that does not exist or cannot stand there, or it does not "
        "say which port the server listens on.",
        "Write it behind `--`, with `{port}` where its port goes: `-- {command} --port {port}`.",
        (USAGE,),
    ),
    "E911": Code(
        "load or values cannot be read",
        "An option of `sweep` takes numbers, lengths, a range or a JSON object, and got something else.",
        "Write it as the help shows.",
        (USAGE,),
    ),
    "E912": Code(
        "nothing to sweep",
        "The pipeline renders no run configuration, or several; or the target lacks the weights that are to decide.",
        "Render one with `schema: run-config`, choose one with --config, or give the target `score:`.",
        (USAGE, INVALID),
    ),
    "E913": Code(
        "nothing could be measured",
        "No server got through its load, whatever the value.",
        "Look at the log of the server in the folder of the value.",
        (FAILED,),
    ),
    "W141": Code(
        "file that nothing uses",
        "A file lies in `kernels/`, `stages/` or `templates/`, or beside files of its kind that stages use, and no "
        "stage uses it, nor does anything that a stage uses import or include it. With `render --locked` it is one "
        "more than the lock has, and an error (E602).",
        "Let a stage use it, remove it, or waive it with the reason at the top of the pipeline.",
        (OK,),
    ),
    "W142": Code(
        "source that git does not track",
        "A stage uses a file that is not committed: the build works here, and not from a fresh clone.",
        "Commit it.",
        (OK,),
    ),
    "W517": Code(
        "expiry cannot be judged",
        "A stage has `expires:`, and neither the origin of the base nor the package says which version it is.",
        "Take a base from a source distribution, or one whose package assigns `__version__`.",
        (OK,),
    ),
    "W518": Code(
        "expectation does not come true",
        "`expect:` of a stage speaks of this release of the base, and `bump` finds another verdict.",
        "Remove the entry, or narrow its `on:`.",
        (OK,),
    ),
    "W520": Code(
        "stage without an effect",
        "No post-check turned true by this stage: nothing would notice if its edits were lost.",
        "Add a check that fails without the stage.",
        (OK,),
    ),
    "W521": Code(
        "check holds with a warning",
        "The check holds, but not as well as one would like: a tile above the preferred shared memory, for example.",
        "Read the evidence and decide.",
        (OK,),
    ),
    "W540": Code(
        "option without effect",
        "The engine in the patched tree overrides the option; the place that does so is named.",
        "Leave the option out, or patch that place.",
        (OK,),
    ),
    "W541": Code(
        "variable that nothing reads",
        "No string of the patched tree names the variable, and nothing of the target's `read_env` reads it.",
        "Correct its name, remove it, or enter its reader in the target.",
        (OK,),
    ),
    "W542": Code(
        "variable set twice",
        "Two of image, Dockerfile and run configuration set a variable to different values; the later one wins.",
        "Set it in one place.",
        (OK,),
    ),
    "W602": Code(
        "not in the lock",
        "As E602, without `--locked`: the run goes on and says what nobody has blessed yet.",
        "Look at the change, then bless it with `orchestrator lock`.",
        (OK,),
    ),
    "W811": Code(
        "source that git does not have",
        "A source is untracked or ignored by git: the build works here, and not from a fresh clone.",
        "Commit it, or fetch it in the build.",
        (OK,),
    ),
    "W812": Code(
        "copy of a deployed module",
        "Several files of the folder are one module, and only one of them goes into the image.",
        "Remove the others: changes in them have no effect.",
        (OK,),
    ),
    "W813": Code(
        "a package's `__init__.py` is patched",
        "What is added there runs before all that is in the package, and is easily overlooked. The same holds for what "
        "runs at every start of Python: `sitecustomize.py`, `usercustomize.py`, path files.",
        "Patch the module that is meant.",
        (OK,),
    ),
    "W814": Code(
        "network between the patches",
        "A step among the patches fetches something that may be another thing tomorrow.",
        "Bring it in the build context, or fetch it by digest.",
        (OK,),
    ),
    "W815": Code(
        "number of files typed by hand",
        "A script compares a number of files with a literal; a number does not say which file is missing.",
        "Compare names and digests with a list that a program wrote.",
        (OK,),
    ),
    "W816": Code(
        "base not pinned",
        "FROM names a tag, which may be another image tomorrow. A note where the build checks the originals by digest.",
        "Add the digest of the image.",
        (OK,),
    ),
    "W890": Code(
        "cannot be known",
        "A script comes from the base image, a value is open, a version is not said, a workspace holds too many files: "
        "this part was not looked at.",
        "Say it on the command line, or bring the file in the build context.",
        (OK,),
    ),
    "W901": Code(
        "compiler not here",
        "A device's rows have to pass a compiler that no known interpreter has: they were not compiled by it.",
        "Name an interpreter that imports it with --python.",
        (OK,),
    ),
    "W910": Code(
        "values that change nothing",
        "Every value of a sweep gives the same run configuration, so the same server is measured again and again. A "
        "parameter that only patches use needs an image for each value, and a sweep builds none.",
        "Use the parameter in the template of the run configuration, or write `{value}` in the server command.",
        (OK,),
    ),
}


@dataclass(frozen=True)
class InstallerCode:
    """A code of `patchset.py`, the program in the image; its message says what was found where."""

    meaning: str
    advice: str


INSTALLER_CODES: dict[str, InstallerCode] = {
    "MANIFEST": InstallerCode("The manifest is damaged or not there.", "Render again and copy the folder whole."),
    "PYTHON": InstallerCode("This is not the interpreter of the target.", "Run it with the target's interpreter."),
    "ROOT": InstallerCode("A package root is not in this image.", "Correct the target's package roots."),
    "UNSAFE": InstallerCode(
        "A link leads out of the root, or a file is of a special kind.", "Make it a regular file inside the root."
    ),
    "UNREADABLE": InstallerCode("A file cannot be read.", "Make it a regular file that this user may read."),
    "MISSING": InstallerCode("An original is not there.", "Render against the package that this image has."),
    "CHANGED": InstallerCode(
        "An original is not the one that the patches were made for.", "Render against the package that this image has."
    ),
    "MIXED": InstallerCode("Some files are patched and others are not.", "Start from a whole base image."),
    "CONFLICT": InstallerCode("Two entries lead to the same real file and want different bytes.", "List it once."),
    "WHEEL": InstallerCode(
        "A wheel, or the version that is installed in its place, is not the expected one.",
        "Render again and copy the folder whole, or correct `replaces:` of the stage.",
    ),
    "BUILD": InstallerCode(
        "A source cannot be compiled: no compiler, or it fails, or another file stands in the result's place.",
        "Read what the compiler says; correct `compiler:` of the target, or switch the stage off.",
    ),
    "NOPIP": InstallerCode("The interpreter has no pip to install a wheel with.", "Install pip in an image between."),
    "OVERLAY": InstallerCode("A file of the overlay is missing or damaged.", "Render again and copy the folder whole."),
    "COMPILE": InstallerCode("A written file does not compile.", "Correct the stage that writes it."),
    "WRITE": InstallerCode("A file could not be written, or is not what was written.", "Check space and permissions."),
    "UNDO": InstallerCode("A failed install could not be taken back.", "Do not use this image."),
    "LIVE": InstallerCode(
        "A module that `live` would ask is not as the patch set has it, or does not answer.",
        "Install the patch set, or correct the stage that deploys it.",
    ),
    "LEFTOVER": InstallerCode("A temporary file could not be removed.", "Remove it; the patch set is in."),
}
