"""Functions whose gradients are written out."""

import pytest
import torch

from incidence.engine.gradient import linear_map, with_gradient

MATRIX = torch.tensor([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]], dtype=torch.float64)


def double(x):
    """2 x, which keeps x for its gradient."""

    def run(x):
        return [2 * x], [x]

    def gradient(saved, grads, needs):
        assert needs == (True,)
        return [2 * grads[0] + 0 * saved[0]]

    [y] = with_gradient(run, gradient, x)
    return y


def test_a_linear_map_has_all_its_derivatives_by_its_adjoint():
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def apply(x):
        return linear_map(x, lambda x: MATRIX @ x, lambda y: MATRIX.T @ y)

    assert torch.equal(apply(x), MATRIX @ x)
    assert torch.autograd.gradcheck(apply, x)
    assert torch.autograd.gradgradcheck(lambda x: apply(x).pow(2), x)


def test_a_linear_map_keeps_no_tensor_for_its_gradient():
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    y = linear_map(x, lambda x: MATRIX @ x, lambda y: MATRIX.T @ y)
    assert y.grad_fn.saved_tensors == ()


def test_what_a_gradient_reads_is_freed_after_the_backward_pass():
    x = torch.ones(2, requires_grad=True)
    y = double(x).sum()
    y.backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_tensors_without_a_gradient_are_not_asked_for_one():
    seen = []

    def run(x, w, b):
        return [x * w], [x, w]

    def gradient(saved, grads, needs):
        seen.append(needs)
        return [grads[0] * saved[1], None, None]

    x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
    [y] = with_gradient(run, gradient, x, w, None)
    y.sum().backward()
    assert seen == [(True, False, False)]
    assert x.grad.tolist() == [3, 3]
