"""Memory planning, without any array."""

from __future__ import annotations

import random

from headrace.plan.memory import ALIGNMENT, Step, last_uses, memory_use, plan_memory


def test_values_whose_lives_do_not_meet_share_memory() -> None:
    steps = [Step((0,), (1,), (256,)), Step((1,), (2,), (256,)), Step((2,), (3,), (256,)), Step((3,), (4,), (None,))]
    plan = plan_memory(steps, [4])
    assert plan.offsets[1] == plan.offsets[3] == 0
    assert plan.offsets[2] == 256
    assert plan.size == 512


def test_an_in_place_step_writes_over_an_input_that_dies() -> None:
    steps = [Step((0,), (1,), (64,)), Step((1,), (2,), (64,), in_place=(0,)), Step((2,), (3,), (None,))]
    plan = plan_memory(steps, [3])
    assert plan.offsets[1] == plan.offsets[2]


def test_it_does_not_while_the_input_or_a_view_of_it_is_needed() -> None:
    used_later = [Step((0,), (1,), (64,)), Step((1,), (2,), (64,), in_place=(0,)), Step((1, 2), (3,), (None,))]
    plan = plan_memory(used_later, [3])
    assert plan.offsets[1] != plan.offsets[2]
    viewed = [
        Step((0,), (1,), (64,)),
        Step((1,), (2,), (None,), aliases=(0,)),
        Step((1,), (3,), (64,), in_place=(0,)),
        Step((2, 3), (4,), (None,)),
    ]
    plan = plan_memory(viewed, [4])
    assert plan.offsets[1] != plan.offsets[3]


def test_a_step_that_reads_a_view_of_its_donor_does_not_write_over_it() -> None:
    steps = [
        Step((0,), (1,), (64,)),
        Step((1,), (2,), (None,), aliases=(0,)),
        Step((1, 2), (3,), (64,), in_place=(0,)),
        Step((3,), (4,), (None,)),
    ]
    plan = plan_memory(steps, [4])
    assert plan.offsets[1] != plan.offsets[3]


def test_results_live_to_the_end_through_views() -> None:
    steps = [
        Step((0,), (1,), (64,)),
        Step((1,), (2,), (None,), aliases=(0,)),
        Step((0,), (3,), (64,)),
        Step((3,), (4,), (None,)),
    ]
    last, roots = last_uses(steps, [2, 4])
    assert last[1] == len(steps)
    assert roots[2] == {1}
    plan = plan_memory(steps, [2, 4])
    assert plan.offsets[1] != plan.offsets[3]


def test_nothing_planned_takes_no_memory() -> None:
    assert plan_memory([Step((0,), (1,), (None,))], [1]).size == 0
    assert plan_memory([], []).size == 0


def test_random_plans_never_give_living_values_the_same_bytes() -> None:
    rng = random.Random(0)
    for _ in range(300):
        steps: list[Step] = []
        values = [0]
        for _ in range(rng.randrange(1, 30)):
            inputs = tuple(rng.choice(values) for _ in range(rng.randrange(1, 4)))
            outputs = tuple(len(values) + i for i in range(rng.randrange(1, 3)))
            view = rng.random() < 0.2
            size = None if view or rng.random() < 0.2 else rng.choice([1, 64, 100, 640])
            in_place = tuple(range(len(inputs))) if size and rng.random() < 0.5 else ()
            steps.append(Step(inputs, outputs, (size,) * len(outputs), aliases=(0,) if view else (), in_place=in_place))
            values.extend(outputs)
        results = [rng.choice(values) for _ in range(2)]
        _simulate(steps, results)


def _simulate(steps: list[Step], results: list[int]) -> None:
    """Run the plan on a real byte map: every value must still hold its own number when it is read."""
    plan = plan_memory(steps, results)
    owner: dict[int, int] = {}  # 64-byte line -> value last written there
    roots: dict[int, set[int]] = {}
    sizes: dict[int, int] = {}

    def check(value: int) -> None:
        for root in roots.get(value, {value}):
            if root in plan.offsets:
                for line in range(plan.offsets[root] // ALIGNMENT, -(-(plan.offsets[root] + sizes[root]) // ALIGNMENT)):
                    assert owner[line] == root, f"value {root} was overwritten by {owner[line]}"

    for step in steps:
        for value in step.inputs:
            check(value)
        viewed = (
            set().union(*(roots.get(step.inputs[i], {step.inputs[i]}) for i in step.aliases)) if step.aliases else set()
        )
        for value, size in zip(step.outputs, step.sizes, strict=True):
            roots[value] = viewed | {value}
            if size is not None:
                sizes[value] = size
                assert plan.offsets[value] % ALIGNMENT == 0
                assert plan.offsets[value] + size <= plan.size
                for line in range(plan.offsets[value] // ALIGNMENT, -(-(plan.offsets[value] + size) // ALIGNMENT)):
                    owner[line] = value
    for value in results:
        check(value)


def test_planning_costs_the_same_for_each_step_however_many_values_live() -> None:
    """A deep network keeps all values of the forward pass alive; a chain of views, all that it is a view of."""
    count = 60_000
    steps = [Step((i,), (i + 1,), (64,)) for i in range(count)]
    steps += [Step((i, 2 * count - i), (2 * count - i + 1,), (64,)) for i in range(count, 0, -1)]
    assert plan_memory(steps, [2 * count]).size <= 64 * (count + 2)
    views = [Step((0,), (1,), (64,)), *(Step((i,), (i + 1,), (None,), aliases=(0,)) for i in range(1, count))]
    last, roots = last_uses(views, [count])
    assert (last[1], roots[count]) == (len(views), {1})


def test_the_smallest_of_several_packings_is_taken() -> None:
    """In the order of time the value of 128 bytes fits into no gap that the small ones leave; placed first, it does."""
    steps = [
        Step((0,), (1, 2, 3), (64, 64, 64)),
        Step((2,), (4,), (None,)),
        Step((1, 3), (5,), (64,)),
        Step((3,), (6,), (128,)),
        Step((5, 6), (7,), (None,)),
    ]
    plan = plan_memory(steps, [7])
    assert plan.size == plan.floor == 256


def test_random_plans_take_no_less_than_what_is_alive() -> None:
    rng = random.Random(1)
    for _ in range(200):
        count = rng.randrange(2, 40)
        steps = [
            Step((rng.randrange(i + 1), rng.randrange(i + 1)), (i + 1,), (64 * rng.randrange(1, 20),))
            for i in range(count)
        ]
        plan = plan_memory(steps, [count])
        assert plan.floor <= plan.size
        _simulate(steps, [count])


def test_what_is_needed_is_the_arena_and_the_most_beside_it() -> None:
    steps = [
        Step((0,), (1, 2), (128, None)),
        Step((1,), (3,), (128,), in_place=(0,)),
        Step((2, 3), (4, 5), (64, None)),
        Step((4, 5), (6,), (None,)),
    ]
    use = memory_use(steps, [6], plan_memory(steps, [6]), {2: 1000, 5: 200, 6: 8})
    assert (use.arena, use.outside) == (192, 1200)
    assert use.alive == ((2, 1000), (5, 200), (3, 128), (4, 64))


def test_nothing_needs_nothing() -> None:
    use = memory_use([], [], plan_memory([], []), {})
    assert (use.arena, use.outside, use.alive) == (0, 0, ())
