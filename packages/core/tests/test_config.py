"""Options, and where they are in force."""

from __future__ import annotations

import pytest

import headrace as hr


def test_options_are_in_force_inside_the_block_and_not_after_it() -> None:
    before = hr.config()
    with hr.config(verify=True), hr.config(strict_promotion=True):
        assert hr.config().verify
        assert hr.config().strict_promotion
    assert hr.config() == before


def test_unknown_option_is_refused_with_close_names() -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="no option 'pases'(.|\n)*passes"):
        hr.config(pases=())


def test_strict_promotion_refuses_to_mix_kinds() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.int32, [2])
        y = hr.placeholder(hr.float32, [2])
        assert (x * y).dtype is hr.float32
        assert (x * 0.5).dtype is hr.float32
        with hr.config(strict_promotion=True):
            assert (x * 2).dtype is hr.int32
            for call in (lambda: x * y, lambda: x * 0.5):
                with pytest.raises(hr.errors.DTypeError, match="strict_promotion|no common dtype"):
                    call()


def test_passes_are_given_as_a_sequence() -> None:
    with pytest.raises(
        hr.errors.InvalidArgumentError, match=r"passes are a sequence(.|\n)*'fold'(.|\n)*passes=\['fold'\]"
    ):
        hr.config(passes="fold")
    with pytest.raises(hr.errors.InvalidArgumentError, match="the options are wrong(.|\n)*hr.config(.|\n)*'fast'"):
        hr.Session(hr.Graph(), config="fast")


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_threads_are_a_number_from_one_on(threads: object) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="threads are counted(.|\\n)*a whole number from 1 on"):
        hr.config(threads=threads)
    assert hr.config(threads=3).threads == 3


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "3", 1025])
def test_virtual_devices_are_counted_and_have_a_limit(count: object) -> None:
    """The placer looks at each device for each operation: a million of them would look like a hang."""
    with pytest.raises(hr.errors.InvalidArgumentError, match="virtual_devices is wrong(.|\n)*1 to 1024"):
        hr.config(virtual_devices={"CPU": count})
