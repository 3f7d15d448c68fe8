"""Write where a job would be placed in a cluster now (``gputopo place --live``)."""

import sys
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.utility import as_number
from gputopo.runtime.messages import quoted
from gputopo.topology.model import GpuMask, indices_of
from gputopo.utility.utility import permille
from gputopo_cli.place.options import LiveOptions, PlaceOptions
from gputopo_cli.place.place import (
    describe_request,
    join_gpus,
    match_document,
    matches_table,
)
from gputopo_cli.place.requested_pod import pod_of_manifest, pod_of_options
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import to_word
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.live import note_lines, read_objects, reject_with_live
from gputopo_cli.shared.pending import (
    explanation_document,
    explanation_lines,
    names,
    reasons_table,
)
from gputopo_cli.shared.shares import share_document, shares_table
from gputopo_explain.drawing.svg import Marks, draw_topology
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.whatif import ChosenNode, NodeOption, WhatIf, place_live
from gputopo_kube.document import ObjectKey
from gputopo_kube.podmodel import PodError


def write_live_placement(
    options: PlaceOptions, live: LiveOptions, form: str, output_file: str | None
) -> bool:
    """Write where the job would be placed, and return whether a node fits.

    Raises:
        InputError: if an option or the manifest is invalid, or the cluster cannot be read.
    """
    _reject_options(options, live)
    objects = _changed(read_objects(options.context), live)
    pod = (
        pod_of_options(options, objects, share=live.share)
        if live.manifest is None
        else pod_of_manifest(live.manifest, objects)
    )
    try:
        found = place_live(pod, objects, only=live.node, runners_up=options.runners_up)
    except PodError as error:
        raise InputError(f"filename: {error}") from None
    if form == "json":
        output.write_json(_document(found, objects), output_file)
    elif form == "svg" and found.chosen is not None:
        output.write(_draw(found.chosen), output_file)
    elif form == "svg":
        sys.stderr.write(f"nothing to draw: {output.one_line(found.explanation.summary)}\n")
    else:
        output.show(_lines(found, live, objects), output_file)
    return found.chosen is not None


def _reject_options(options: PlaceOptions, live: LiveOptions) -> None:
    """Reject options that contradict --live or --filename."""
    reject_with_live(
        {
            "topology": bool(options.topology),
            "busy": bool(options.busy),
            "model": options.model is not None,
        }
    )
    job_options = (options.gpus, options.pattern, options.edges, options.sensitive)
    if live.manifest is not None and any(
        each is not None for each in (*job_options, options.policy, live.share or None)
    ):
        raise InputError(
            "filename: the manifest states the job: leave out --gpus, --pattern, --edges, "
            "--sensitive, --share and --policy"
        )


def _changed(objects: ClusterObjects, live: LiveOptions) -> ClusterObjects:
    """Return the cluster without the pods and nodes of the options; reject unknown names."""
    known = {*objects.snapshot.nodes, *objects.machines}
    for option, nodes in (("node", [live.node]), ("without-node", live.without_node or [])):
        for node in nodes:
            if node is not None and node not in known:
                raise InputError(f"{option}: {quoted(node)}: the cluster has no node of this name")
    ended: set[str] = set()
    for text in live.after_end or ():
        namespace, _, name = text.rpartition("/")
        key = ObjectKey(namespace or "default", name)
        pod = objects.pod_documents.get(key)
        uids = {*objects.snapshot.users(key), *([pod["metadata"]["uid"]] if pod else ())}
        if not uids:
            raise InputError(f"after-end: {quoted(text)}: there is no pod of this name")
        ended |= uids
    return objects.after(ended, live.without_node or ())


def _document(found: WhatIf, objects: ClusterObjects) -> dict[str, object]:
    """Return the answer as JSON. Later versions must keep all keys (docs/use/what-if.md)."""
    request, chosen = found.explanation.request, found.chosen
    return {
        "node": chosen and chosen.node,
        "equallyGood": [*chosen.equally_good] if chosen else [],
        "uuids": [*chosen.uuids] if chosen else [],
        **(match_document(chosen.matches[0]) if chosen else {"gpus": None}),
        "model": chosen and chosen.matches[0].model,
        "sharedGpu": chosen and chosen.shared and share_document(chosen.shared),
        "request": request
        and {
            "gpus": request.size,
            "pattern": to_word(request.pattern.kind),
            "sensitive": request.sensitive,
            "reason": request.sensitivity_reason,
            "policy": to_word(request.policy),
        },
        "runnersUp": [match_document(each) for each in chosen.matches[1:]] if chosen else [],
        "options": [_option_document(option) for option in found.options],
        "explanation": explanation_document(found.explanation),
        "notes": [*objects.notes],
    }


def _option_document(option: NodeOption) -> dict[str, object]:
    return {
        "nodes": [*option.nodes],
        "best": option.best,
        "score": option.score,
        "freeGpus": option.free_gpus,
        **match_document(option.match),
        "physicalBandwidthGBps": output.to_gb_per_s(option.match.common_mb_per_s),
        "lostBandwidthGBps": output.to_gb_per_s(option.lost_mb_per_s),
        "guaranteedMilliCPU": option.cpu_share,
    }


def _draw(chosen: ChosenNode) -> str:
    gpus = chosen.matches[0].gpus
    edges = [(gpus[edge.a], gpus[edge.b]) for edge in chosen.request.pattern.edges]
    busy = indices_of(GpuMask(chosen.topology.mask & ~chosen.free))
    name = f"node/{chosen.node}"
    summary = f"{len(gpus)} of {len(chosen.topology.gpus)} GPUs"
    return draw_topology(chosen.topology, Marks(gpus, busy, edges), name=name, summary=summary)


def _lines(found: WhatIf, live: LiveOptions, objects: ClusterObjects) -> Iterator[RenderableType]:
    if found.chosen is None:
        yield from _lines_without_node(found, live)
    else:
        yield from _chosen_lines(found, found.chosen)
        if found.explanation.groups:
            yield Text()
            yield Text("the job does not fit now:")
            yield reasons_table(found.explanation.groups)
    yield from note_lines(objects)


def _lines_without_node(found: WhatIf, live: LiveOptions) -> Iterator[RenderableType]:
    if live.node is not None and found.explanation.fitting:
        others = names([*found.explanation.fitting])
        yield Text(f"the job does not fit {live.node} now; it fits {others}", "bold")
        groups = [group for group in found.explanation.groups if live.node in group.nodes]
        yield reasons_table(groups)
    else:
        yield from explanation_lines(found.explanation)


def _chosen_lines(found: WhatIf, chosen: ChosenNode) -> Iterator[RenderableType]:
    best, request = chosen.matches[0], chosen.request
    noun = "GPU" if len(best.gpus) == 1 else "GPUs"
    yield Text(f"{noun} {join_gpus(best.gpus)} of {chosen.node}", "bold")
    if len(chosen.equally_good) > 1:
        yield Text(f"or the same of another equally good node: {names(chosen.equally_good)}")
    model = f", effective bandwidth by {best.model}" if best.model else ""
    reason = f" ({request.sensitivity_reason}), policy {to_word(request.policy)}"
    yield Text(output.one_line(f"{describe_request(request)}{reason}{model}"))
    if chosen.shared:
        yield Text(f"shares the GPU with {names(chosen.shared.beside)}")
    if found.explanation.shared_gpus:
        yield Text()
        yield shares_table(found.explanation.shared_gpus)
    yield Text()
    yield matches_table(chosen.matches)
    yield Text()
    columns = ("SCORE>", "NODES>", "FREE>", "GPUS", "PHYSICAL>", "LOST GB/s>", "CPUS>")
    utility = ("UTILITY>",) if best.utility else ()
    yield output.table(*columns, *utility, "NODE", rows=map(_option_row, found.options))


def _option_row(option: NodeOption) -> tuple[str, ...]:
    share, utility = option.cpu_share, option.match.utility
    return (
        f"{option.score}{'*' if option.best else ''}",
        str(len(option.nodes)),
        str(option.free_gpus),
        join_gpus(option.match.gpus),
        output.format_gb_per_s(option.match.common_mb_per_s),
        output.format_gb_per_s(option.lost_mb_per_s),
        "-" if share is None else output.format_number(share / 1000),
        *(() if utility is None else (as_number(permille(utility.value)),)),
        names(option.nodes),
    )
