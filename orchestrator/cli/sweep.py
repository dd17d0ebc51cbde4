"""`sweep`: start a server for each value of a parameter, put a load on it, recommend a value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.cli.options import (
    FileOption,
    JsonOption,
    OfflineOption,
    Request,
    SetOption,
    TargetOption,
    TreeOption,
    VariantOption,
    WorkspaceOption,
)

CONTEXT = {"allow_interspersed_args": False}
"""The first word that is no option begins the server's command; what follows is the server's own."""


def command(
    server: Annotated[
        list[str] | None,
        typer.Argument(metavar="SERVER COMMAND", help="With {port}, {flags}, {command}, {config}, {value}, {folder}."),
    ] = None,
    values: Annotated[str, typer.Option("--values", help="Values to try, as in 4,8,16.")] = "4,8,16,32,64,128",
    param: Annotated[str, typer.Option("--param", help="The parameter that takes them.")] = "max_num_seqs",
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    tree: TreeOption = None,
    offline: OfflineOption = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for records, logs and plot.", show_default="sweep")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", help="Which run configuration, if several are rendered.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port of the server; a free one if not given.")
    ] = None,
    health: Annotated[str, typer.Option("--health", help="Path that answers once the server is ready.")] = "/health",
    model: Annotated[
        str | None, typer.Option("--model", help="Model to ask for; the server's first if not given.")
    ] = None,
    prompt_tokens: Annotated[
        str, typer.Option("--prompt-tokens", help="Lengths of the prompts, taken in turn.")
    ] = "512",
    shared_tokens: Annotated[
        int, typer.Option("--shared-tokens", min=0, help="Tokens at the start that all prompts have in common.")
    ] = 256,
    output_tokens: Annotated[int, typer.Option("--output-tokens", min=1, help="Tokens of each answer.")] = 128,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, help="Requests at a time; as the run configuration says if not given."),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Requests of a repeat, as a multiple of the concurrency.")
    ] = 2,
    warm_up: Annotated[int, typer.Option("--warm-up", min=0, help="Rounds that are not measured.")] = 1,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Repeats of the measurement.")] = 3,
    token_ids: Annotated[
        str, typer.Option("--token-ids", metavar="LOW-HIGH", help="Token ids that prompts are made of.")
    ] = "300-1299",  # noqa: S107 - tokens of a text
    body: Annotated[
        str, typer.Option("--body", metavar="JSON", help="Further fields of every request.")
    ] = '{"ignore_eos": true, "temperature": 0}',
    health_limit: Annotated[float, typer.Option("--health-limit", min=0.1, help="Seconds until it is healthy.")] = 900,
    stall_limit: Annotated[float, typer.Option("--stall-limit", min=0.1, help="Seconds between two tokens.")] = 120,
    load_limit: Annotated[float, typer.Option("--load-limit", min=0.1, help="Seconds for the load of a value.")] = 3600,
    grace: Annotated[float, typer.Option("--grace", min=0, help="Seconds between asking it to end and the kill.")] = 20,
    by: Annotated[Literal["output", "score"], typer.Option("--by", help="What decides: output or score.")] = "output",
    errors: Annotated[float, typer.Option("--errors", min=0, help="Margin, in standard errors of a difference.")] = 2.0,
    share: Annotated[float, typer.Option("--share", min=0, max=1, help="Margin, as a share of the best.")] = 0.02,
    every: Annotated[bool, typer.Option("--every", help="Measure every value; the plateau does not stop.")] = False,
    after_failure: Annotated[
        Literal["auto", "stop", "next"],
        typer.Option("--after-failure", help="What follows a failed value: auto, stop or next."),
    ] = "auto",
    again: Annotated[bool, typer.Option("--again", help="Measure what is in the records already.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try values again that the records say have failed.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Start the server for each value of a parameter, put a load on it, and recommend a value.

    Records, logs, run configurations and a plot go to sweep/; the same command resumes what was interrupted.

    Example: orchestrator sweep --values 4,8,16 -- {command} --port {port}
    """
    from orchestrator.cli import sweeping, swept
    from orchestrator.cli.output import print_diagnostics
    from orchestrator.cli.steps import need_extra

    words = tuple(server or ())
    sweeping.look_at_command(words, port)
    sweeping.look_at_path(health)
    numbers = sweeping.numbers(values)
    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="sweep"
    )
    need_extra("sweep", ("h11", "httpx", "httpx_sse", "matplotlib"))
    from orchestrator.sweep.model import Limits, Load
    from orchestrator.sweep.plateau import Rule
    from orchestrator.sweep.sweep import Settings
    from orchestrator.sweep.trial import Serving

    told = Settings(
        parameter=param,
        serving=Serving(words, port, model, health, Limits(health_limit, stall_limit, load_limit, grace)),
        load=Load(
            prompt_tokens=sweeping.lengths(prompt_tokens),
            shared_tokens=shared_tokens,
            output_tokens=output_tokens,
            rounds=rounds,
            warm_up=warm_up,
            repeats=repeats,
            concurrency=concurrency,
            token_ids=sweeping.token_range(token_ids),
            body=sweeping.fields(body),
        ),
        rule=Rule(errors, share),
        weights=swept.weights_of(request, by),
        by=by,
        after_failure=after_failure,
        stops=not every,
        again=again,
        retry=retry,
    )
    rendered = swept.rendered(request, param, numbers, config, sweeping.tell)
    print_diagnostics(sweeping.changes_nothing(rendered, told), as_json=as_json)
    return sweeping.run(rendered, told, output if output is not None else workspace / "sweep", as_json=as_json)
