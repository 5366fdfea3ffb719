"""Greedy matching of the tokens of two texts by the cosines of their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Weights = npt.NDArray[np.float64]


class Matched(NamedTuple):
    """How well two texts match: of the response, of the reference, and their harmonic mean.

    Each is at most 1 and seldom below 0. A side without any weight has 0, as then has `f1`.
    """

    precision: float
    recall: float
    f1: float


def unit_rows(vectors: Vectors) -> Vectors:
    """Return vectors of length 1: ``(n, d)`` in, ``(n, d)`` out; one of length 0 becomes NaN."""
    with np.errstate(invalid="ignore"):
        rows: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows


def idf_weights(tokens: Sequence[int], counts: Mapping[int, int], n_documents: int) -> Weights:
    """Return how rare each token is: ``log((n + 1) / (df + 1))``.

    Parameters
    ----------
    tokens
        Token ids; ``(n_tokens,)``.
    counts
        In how many documents a token is; those that are not there are in none.
    n_documents
        How many documents there are.

    Examples
    --------
    >>> idf_weights([7, 8, 9], {7: 3, 8: 1}, 3).round(4).tolist()
    [0.0, 0.6931, 1.3863]
    """
    in_documents = np.array([counts.get(token, 0) for token in tokens], dtype=float)
    weights: Weights = np.log((n_documents + 1) / (in_documents + 1))
    return weights


def greedy_match(
    response: Vectors, reference: Vectors, response_weights: Weights, reference_weights: Weights
) -> Matched:
    """Return the weighted means of each token's best cosine with the other text.

    Zhang et al. 2020, BERTScore, section 3: precision is the mean over the
    response of ``max_j x_i . y_j``, recall that over the reference. Tokens of weight 0 count in
    neither, and can be matched all the same.

    Parameters
    ----------
    response, reference
        Vectors of length 1; ``(n, d)`` and ``(m, d)``, both with a row at least.
    response_weights, reference_weights
        At least 0; ``(n,)`` and ``(m,)``.

    Examples
    --------
    >>> x, y = np.eye(2, dtype=np.float32), np.array([[0.6, 0.8]], dtype=np.float32)
    >>> found = greedy_match(x, y, np.ones(2), np.ones(1))
    >>> [round(each, 4) for each in found]
    [0.7, 0.8, 0.7467]
    """
    cosines = response @ reference.T
    precision = _mean(cosines.max(axis=1), response_weights)
    recall = _mean(cosines.max(axis=0), reference_weights)
    total = precision + recall
    return Matched(precision, recall, 2 * precision * recall / total if total else 0.0)


def best_match(matches: Iterable[Matched]) -> Matched:
    """Return the highest precision, recall and f1, each for itself; NaN where one is NaN.

    >>> best_match([Matched(0.9, 0.1, 0.18), Matched(0.5, 0.5, 0.5)])
    Matched(precision=0.9, recall=0.5, f1=0.5)
    """
    return Matched(*np.max([tuple(each) for each in matches], axis=0).tolist())


def _mean(values: Vectors, weights: Weights) -> float:
    total = weights.sum()
    return float(values @ weights / total) if total else 0.0
