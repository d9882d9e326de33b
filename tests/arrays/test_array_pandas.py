"""pandas as people write it, followed: each cell of the input is changed, and what moves is named.

The functions are texts, one line each, over a frame `p`. Each of them is followed exactly.
"""

import numpy as np
import pandas as pd
import pytest

from whence.arrays.frames.follow import follow_groups

ROWS = 9
CHANGED = (1, 4, 5, 8)
GIVEN = pd.DataFrame(
    {
        "id": range(ROWS),
        "g": [f"s{i % 3}" for i in range(ROWS)],
        "x": [(i * 37) % 11 - 4.0 + i / 100 if i != 5 else np.nan for i in range(ROWS)],
        "n": [(i * 5) % 7 for i in range(ROWS)],
        "w": [(i * 7) % 10 + 0.5 for i in range(ROWS)],
        "t": pd.Timestamp("2024-01-01") + pd.to_timedelta([i * 5 % 9 for i in range(ROWS)], "D"),
    }
)
CHANGES = {
    "g": lambda old: ["s9", "s1"],
    "x": lambda old: [1.5 if np.isnan(old) else old + 0.3, -77.0, np.nan],
    "n": lambda old: [old + 1, 0, 5],
    "w": lambda old: [old + 0.25, 99.0, -3.0],
    "t": lambda old: [old + pd.Timedelta("1D"), pd.Timestamp("2024-01-20")],
}

# A column, beside `p.id`.
COLUMNS = [
    "np.where(p.n>3,p.x,p.w)",
    "np.where(p.x.isna(),0,p.x)",
    "np.digitize(p.n,[1,3,5])",
    "np.select([p.n>4,p.n>2],[p.x,p.w],0.0)",
    "np.maximum(p.n,p.w)",
    "np.log1p(p.w)",
    "np.mean(p.w)+p.n",
    "np.cumsum(p.n)",
    "np.clip(p.w,2,6)",
    "np.round(p.x,1)",
    "np.sort(p.w)",
    "np.diff(p.w,prepend=0)",
    "np.interp(p.w,[0,5,10],[0,1,4])",
    "np.convolve(p.w,[.5,.5],mode='same')",
    "np.percentile(p.w,50)+p.n",
    "np.searchsorted([1,3,5],p.n)",
    "np.isin(p.n,[1,2])",
    "np.dot(p.w,p.n)+p.x",
    "np.average(p.w,weights=p.n)+p.n",
    "np.concatenate([p.w.iloc[1:],p.w.iloc[:1]])",
    "np.gradient(p.w)",
    "np.argsort(p.w)",
    "np.nan_to_num(p.x)",
    "np.histogram(p.w,bins=3)[0].sum()+p.n",
    "np.quantile(p.w,[.1,.9]).sum()+p.n",
    "np.abs(p.x)",
    "np.sqrt(p.w**2+p.n**2)",
    "np.unique(p.n)[0]+p.w",
    "p.x.where(p.n>3,p.w)",
    "p.x.where(p.n>3)",
    "p.x.mask(p.n>3,0.0)",
    "p.w.clip(2,6)",
    "p.w.clip(lower=p.n)",
    "p.x.ffill()",
    "p.x.bfill()",
    "p.x.fillna(0)",
    "p.x.fillna(p.w)",
    "p.x.fillna(p.x.mean())",
    "p.x.interpolate()",
    "p.n.isin([1,2,3])",
    "p.g.isin(['s1'])",
    "p.x.round(1)",
    "p.w.rank()",
    "p.w.rank(ascending=False,method='dense')",
    "p.w.rolling(3).mean()",
    "p.w.rolling(3,min_periods=1).sum()",
    "p.w.rolling(2).max()",
    "p.w.expanding().mean()",
    "p.w.ewm(alpha=.5).mean()",
    "p.n.diff()",
    "p.n.pct_change()",
    "p.w.cummax()",
    "p.w.cumsum()",
    "p.x.cumsum()",
    "p.w.shift(1)",
    "p.groupby('g').w.transform('sum')",
    "p.groupby('g').w.transform('mean')",
    "p.w-p.groupby('g').w.transform('mean')",
    "p.groupby('g').w.cumsum()",
    "p.groupby('g').cumcount()",
    "p.groupby('g').w.shift(1)",
    "p.groupby('g').w.rank()",
    "p.groupby('g').w.transform(lambda s: s-s.mean())",
    "p.groupby('n').w.transform('sum')",
    "p.n.map({1:1.0,2:5.0})",
    "p.g.map({'s1':1.0,'s2':5.0})",
    "p.n.map(lambda v: v*2)",
    "p.n.apply(lambda v: v+1 if v>2 else 0)",
    "p.apply(lambda r: r.n+r.w,axis=1)",
    "p.g.str.len()+p.n",
    "p.g.str.upper().eq('S1').astype(float)",
    "(p.w>3).astype(int)",
    "p.w.between(2,6).astype(float)",
    "p.w.astype('int64')",
    "p.n/p.n.sum()",
    "(p.w-p.w.min())/(p.w.max()-p.w.min())",
    "(p.w-p.w.mean())/p.w.std()",
    "p.w.quantile(.5)+p.n",
    "p.w.median()+p.n",
    "p.w.abs().pow(2)",
    "p[['w','n']].sum(axis=1)",
    "p[['w','n']].max(axis=1)",
    "p[['w','n']].mean(axis=1)",
    "p[['w','n']].to_numpy().sum(axis=1)",
    "p[['w','n']].values @ np.array([1.0,2.0])",
    "p.eval('w+n')",
    "p.t.dt.day",
    "p.t.dt.dayofweek+p.n",
    "(p.t-p.t.min()).dt.days",
    "p.t.diff().dt.total_seconds()",
    "p.w.sort_values().values",
    "p.w.nlargest(3).sum()+p.n",
    "p.w.idxmax()+p.n",
    "p.w.iloc[::-1].values",
    "p.w.value_counts().iloc[0]+p.n",
    "p.w.nunique()+p.n",
    "p.w.to_list()[0]+p.n",
    "p.w.dropna().sum()+p.n",
    "p.x.dropna().mean()+p.n",
    "pd.cut(p.w,[0,3,6,20],labels=False)",
    "pd.Series(np.arange(len(p)),index=p.index)*p.w",
    "pd.to_numeric(p.n)*2",
    "p.x.combine_first(p.w)",
    "p.w.add(p.n,fill_value=0)",
    "p.w.replace(0.5,9.0)",
    "p.n.replace({1:10,2:20})",
    "p.n.duplicated().astype(float)",
    "p.w.cumprod()",
    "p.set_index('id').w.reindex([3,2,1]).reindex(p.id).values",
    "p.w.sub(p.w.shift(1)).fillna(0)",
    "p.w.rolling(2).apply(lambda a: a[0]*2,raw=True)",
    "p.w.dot(p.n)+p.n",
    "p.x.notna().astype(float)",
    "p.x.isna().sum()+p.n",
    "[v*2 for v in p.w]",
    "[a+b for a,b in zip(p.w,p.n)]",
    "[r.w+r.n for r in p.itertuples()]",
    "[r['w'] for _,r in p.iterrows()]",
    "p.w.agg('sum')+p.n",
    "p.w.agg(['min','max']).sum()+p.n",
    "p.w.var()+p.n",
    "p.w.skew()+p.n",
    "p.w.sem()+p.n",
    "p.w.prod()+p.n",
    "p.w.count()+p.n",
    "p.w.corr(p.n)+p.n",
    "p.w.cov(p.n)+p.n",
    "p.w.any()+p.n",
    "p.w.gt(3)&p.n.lt(4)",
    "~(p.w>3)",
    "p.w.divmod(2)[0]",
    "p.w//2",
    "p.n%3",
    "-p.w",
    "p.w.floordiv(2)",
    "p.w.mul(p.n)",
    "p.w.repeat(1)",
    "p.n.astype(float).values",
    "p.w.tail(1).iloc[0]+p.n",
    "p.loc[p.n>3,'w'].sum()+p.n",
    "p.query('n>3').w.sum()+p.n",
    "p.w[p.n>3].mean()+p.n",
    "p.n+p.w.mean()",
    "p.w.mean()*p.n",
    "np.mean(p.w)-p.n",
    "p.n-p.w.iloc[0]",
    "p.w.iloc[0]>p.n",
    "p.w.sum()/p.n.astype(float)",
    "p.g.map(p.groupby('g').w.mean())",
    "p.g.map(p.groupby('g').w.mean().to_dict())",
    "p.g.map({'s0': p.w.max(), 's1': p.n.min(), 's2': 1.0})",
    "p.g.map({'s0': p.w.max()})",
    "p.x.fillna(p.groupby('g').x.transform('mean'))",
    "p.w.where(p.w>p.w.mean(), p.w.mean())",
    "p.w.clip(p.w.quantile(.1), p.w.quantile(.9))",
    "np.where(p.g=='s1', p.w.mean(), p.w)",
    "p.g.isin(p.g[p.n>3])",
    "p.g + '-' + p.g",
    "p.w.map(lambda v: v if v > 3 else p.n.max())",
    "p.w.add(1).mul(2).sub(p.n).div(3).pow(2)",
    "p.w.eq(p.w.max()).astype(int)",
    "p.index.to_numpy()*p.w",
    "p.w.to_frame().join(p.set_index('id').n.rename('m')).m",
    "p.set_index('g').w.loc['s1'].sum() + p.n",
    "p.w.loc[3] + p.n",
    "p.at[2,'w'] + p.n",
    "p.iat[2,4] + p.n",
    "p.loc[2,'w'] * p.n",
    "p.loc[p.w.idxmax(),'n'] + p.w",
    "p.iloc[0].w + p.n",
    "p.iloc[-1]['n'] + p.w",
    "p['w'].values[::2].sum() + p.n",
    "p.w.head(3).mean() - p.n",
    "p.filter(['w','n']).sum(axis=1)",
    "p.select_dtypes('number').sum(axis=1)",
    "p[['w','n']].std(axis=1)",
    "p[['w','n']].min(axis=1) / p.w",
    "p.w.transform(lambda s: s*2)",
    "p.w.pipe(lambda s: s/s.sum())",
    "(p.w > p.w.shift(1)).cumsum()",
    "(p.n != p.n.shift()).cumsum()",
    "p.groupby('g').w.diff()",
    "p.groupby('g').x.fillna(0)",
    "p.groupby('g').x.transform('size')",
    "p.groupby('g').w.transform('first')",
    "p.groupby('g').w.transform('last')",
    "p.groupby('g').w.transform('nunique')",
    "p.groupby('g').w.transform('median')",
    "p.groupby('g').w.transform('std')",
    "p.groupby(['g','n']).w.transform('sum')",
    "p.groupby('g').w.nth(0).sum() + p.n",
    "p.groupby('g').ngroup()",
    "p.w.between(p.n, 9)",
    "p.w.sort_values(ascending=False).reset_index(drop=True)",
    "p.w.argsort()",
    "p.w.unique().sum() + p.n",
    "p.w.nunique() * p.n",
    "p.t.dt.strftime('%d')",
    "p.t.sort_values().diff().dt.days.values",
    "p.t.dt.floor('D')",
    "p.t.astype('int64')",
    "p.t.rank()",
    "p.eval('w * n + 1')",
    "p.w.values.reshape(3,3).sum(axis=1).repeat(3)",
    "p.w.to_numpy().cumsum()",
    "np.array(p.w)[::-1]",
    "np.asarray(p['n']) ** 2",
    "np.vstack([p.w, p.n]).max(axis=0)",
    "np.column_stack([p.w, p.n]).sum(axis=1)",
    "np.outer(p.w, p.n).trace() + p.n",
    "np.linalg.norm(p[['w','n']].to_numpy(), axis=1)",
    "np.einsum('i,i->i', p.w, p.n)",
    "np.roll(p.w, 1)",
    "np.pad(p.w, (1,0))[:-1]",
    "np.split(p.w, 3)[0].sum() + p.n",
    "np.nanmean(p.x) + p.n",
    "np.sum(p.w) + p.n",
    "np.std(p.w) + p.n",
    "np.any(p.w > 9) + p.n",
    "np.median(p.w) + p.n",
    "np.ptp(p.w) + p.n",
    "np.prod(p.w) + p.n",
    "np.argmax(p.w) + p.n",
    "np.count_nonzero(p.n) + p.w",
    "np.unique(p.n, return_inverse=True)[1]",
    "np.allclose(p.w, p.n) + p.n",
    "np.sign(p.x) * np.exp(-p.w)",
    "np.floor_divide(p.n, 2) + np.mod(p.n, 3)",
    "np.logical_and(p.w > 3, p.n < 5)",
    "np.heaviside(p.x, 0.5)",
    "np.isnan(p.x).astype(int)",
    "np.add.accumulate(p.w)",
    "np.trapezoid(p.w) + p.n",
    "sum(p.w) + p.n",
    "max(p.w) + p.n",
    "sorted(p.w)",
    "list(map(lambda a: a + 1, p.w))",
    "[a * b for a, b in zip(p.w, p.n)]",
    "[p.w[i] + p.w[i-1] if i else 0.0 for i in range(9)]",
    "p.to_dict('records')[2]['w'] + p.n",
    "p.w.to_dict()[2] + p.n",
    "p.values[:, 4]",
    "[[a, b] for a, b in zip(p.w, p.n)]",
    "[(a, 1.0) for a in p.w]",
    "[p.w.to_numpy()[i:i+2] for i in range(9)]",
    "[{'a': a} for a in p.w]",
    "['a' if v > 3 else 'b' for v in p.w]",
    "p.t.max() - p.t",
    "(p.t > '2024-01-03').astype(int)",
    "(p.t >= pd.Timestamp('2024-01-03')) & (p.n > 2)",
    "p.t - pd.Timestamp('2024-01-01')",
    "p.t + pd.Timedelta('1D')",
    "(p.t - p.t.min()).dt.days",
    "(p.t - p.t.shift()) > '1D'",
    "(p.t - p.t.min()) / pd.Timedelta('1D')",
    "p.t.where(p.n > 3, pd.Timestamp('2024-01-01'))",
    "p.t.fillna(pd.Timestamp('2024-01-01'))",
    "p.groupby('g').x.transform('count')",
    "p.groupby('g').x.count().sum() + p.n",
    "p.groupby('g').x.ffill()",
    "p.groupby('g').x.bfill()",
    "p.groupby('g').w.pct_change()",
    "p.groupby('g').t.transform('max')",
    "p.groupby('g').t.transform('min') - p.t",
    "p.groupby('g').w.agg(['min','max']).sum(axis=1).sum() + p.n",
    "p[p.t > '2024-01-03'].w.sum() + p.n",
    "p.groupby(p.t.dt.day).w.transform('sum')",
    "p.sort_values(['g','t']).groupby('g').w.cumsum()",
    "p.groupby('g').w.transform(lambda s: s.rolling(2).mean())",
    "p.groupby('g').w.apply(lambda s: s.max() - s.min()).sum() + p.n",
    "p.groupby('g').w.agg(lambda s: s.iloc[0]).sum() + p.n",
    "p.groupby('g')[['w','n']].sum().w.sum() + p.n",
    "p.groupby((p.n > 3).cumsum()).w.transform('sum')",
]

# A frame.
FRAMES = [
    "p.sort_values('w')",
    "p[p.n>3]",
    "p.query('n>3')",
    "p.drop_duplicates('n')",
    "p.drop_duplicates(['g'])",
    "p.dropna()",
    "p.dropna(subset=['x'])",
    "p.nlargest(3,'w')",
    "p.head(3)",
    "p.tail(2)",
    "p.groupby('g',as_index=False).w.sum()",
    "p.groupby('g',as_index=False).agg(w=('w','sum'),n=('n','max'))",
    "p.groupby('g').agg(w=('w','mean')).reset_index()",
    "p.groupby('n',as_index=False).w.sum()",
    "p.merge(p.groupby('g',as_index=False).w.sum().rename(columns={'w':'tot'}),on='g')",
    "p.merge(pd.DataFrame({'g':['s0','s1'],'f':[2.0,3.0]}),on='g')",
    "p.merge(pd.DataFrame({'g':['s0','s1'],'f':[2.0,3.0]}),on='g',how='left')",
    "p.sort_values(['g','w']).groupby('g').head(1)",
    "p.sort_values('w').groupby('g',as_index=False).first()",
    "p.loc[p.groupby('g').w.idxmax()]",
    "p.melt(id_vars=['id'],value_vars=['w','n'])",
    "p.pivot_table(index='g',values='w',aggfunc='sum').reset_index()",
    "p.sample(3,random_state=1)",
    "p.iloc[::-1].reset_index(drop=True)",
    "p.set_index('id').sort_index().reset_index()",
    "p.assign(z=lambda d: d.w*2)",
    "p.sort_values('t').assign(d=lambda d: d.w.diff())",
    "pd.concat([p,p])",
    "p[['w','n']].cumsum()",
    "p[['w','n']].apply(lambda c: c-c.mean())",
    "p[['w','n']].rolling(2).sum()",
    "p[['x','w']].fillna(0)",
    "p[['x','w']].ffill()",
    "p[['w','n']].rank()",
    "p[['w','n']].round(0)",
    "p[['w','n']].diff()",
    "p[['w','n']].mean().to_frame('m').reset_index()",
    "p.agg({'w':'sum','n':'max'}).to_frame().T",
    "p.nsmallest(2,'n')",
    "p.groupby('g').apply(lambda d: d.nlargest(1,'w')).reset_index(drop=True)",
    "p.groupby('g').filter(lambda d: d.w.sum()>10)",
    "p.explode('g')",
    "p.replace({'g':{'s1':'zz'}})",
    "p.rename(columns={'w':'v'})[['v','g']]",
    "p[['n','w']].astype(float)",
    "pd.DataFrame([{'m':p.w.mean(),'k':p.n.max()}])",
    "pd.DataFrame([[p.w.sum(),p.n.iloc[0]]],columns=['a','b'])",
    "pd.DataFrame({'a':p.w.values,'b':p.n.values})",
    "pd.get_dummies(p.n).add_prefix('c').assign(w=p.w)",
    "pd.crosstab(p.g,p.n).reset_index()",
    "p[['x','w']].interpolate()",
]


def function_of(text, column):
    made = f"pd.DataFrame({{'id': p.id, 'y': {text}}})" if column else text
    names = {"np": np, "pd": pd, "__name__": "of_the_user"}
    exec(f"def function(p):\n    return {made}", names)
    return names["function"]


def named_in(answer, row, width):
    """Of each output column, the input cells (column, row from 0) that are behind it."""
    found = {column: set() for column in range(width)}
    for out, _, inp, lo, hi, _ in answer.cells[row].reshape(-1, 6).tolist():
        inputs = range(GIVEN.shape[1]) if inp < 0 else [inp]
        for column in range(width) if out < 0 else [out]:
            found[column] |= {(i, row - 1) for i in inputs for row in range(lo, hi + 1)}
    return found


def differ(one, two):
    if isinstance(one, np.ndarray):
        return not np.array_equal(one, two, equal_nan=True)
    same = one is two or one == two or (one != one and two != two)
    close = isinstance(one, float) and isinstance(two, float) and abs(one - two) < 1e-9
    return not (same or close)


def moved(function, before, column, row):
    """Output cells (row, column) that are others when an input cell is changed."""
    for new in CHANGES[column](GIVEN[column][row]):
        other = GIVEN.copy()
        other.loc[row, column] = new
        after = function(other)
        if after.shape != before.shape or list(after.columns) != list(before.columns):
            continue  # other rows: none of these is the one before
        for j in range(before.shape[1]):
            pairs = zip(before.iloc[:, j], after.iloc[:, j], strict=True)
            yield from ((i, j) for i, (a, b) in enumerate(pairs) if differ(a, b))


TEXTS = [(text, True) for text in COLUMNS] + [(text, False) for text in FRAMES]
SOMETIMES = [pytest.param(*pair, marks=pytest.mark.full) for pair in TEXTS[1::2]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "column"), [*TEXTS[::2], *SOMETIMES])
def test_what_moves_is_named_and_the_answer_is_exact(text, column):
    function = function_of(text, column)
    result, answer = follow_groups(function, function, None, [GIVEN.copy()])
    before = function(GIVEN.copy())
    pd.testing.assert_frame_equal(result, before)
    assert answer.doubt == [None] * len(result)
    named = [named_in(answer, i, result.shape[1]) for i in range(len(result))]
    for at, name in enumerate(GIVEN.columns):
        if name in CHANGES:
            for row in CHANGED:
                for i, j in moved(function, before, name, row):
                    assert (at, row) in named[i][j], f"{name}[{row}] moves {j} of row {i}"


def contributing(text, row):
    """The input cells (name, row) that contribute to column `y` of an output row."""
    function = function_of(text, True)
    _, answer = follow_groups(function, function, None, [GIVEN.copy()])
    assert answer.doubt[row] is None
    found = set()
    for out, _, inp, lo, hi, role in answer.cells[row].reshape(-1, 6).tolist():
        if role and out == 1:
            found |= {(GIVEN.columns[inp], i - 1) for i in range(lo, hi + 1)}
    return found


def test_what_contributes_is_no_more_than_that():
    same_group = {("w", i) for i in (1, 4, 7)}
    assert contributing("np.where(p.n > 3, p.x, p.w)", 4) == {("x", 4)}
    assert contributing("p.x.where(p.n > 3, p.w)", 2) == {("w", 2)}
    assert contributing("p.x.ffill()", 5) == {("x", 4)}
    assert contributing("p.x.bfill()", 5) == {("x", 6)}
    assert contributing("p.x.interpolate()", 5) == {("x", 4), ("x", 6)}
    assert contributing("p.w.rolling(3).mean()", 6) == {("w", 4), ("w", 5), ("w", 6)}
    assert contributing("p.w.rolling(3).max()", 6) == {("w", int(GIVEN.w[4:7].idxmax()))}
    assert contributing("p.w.expanding().sum()", 2) == {("w", 0), ("w", 1), ("w", 2)}
    assert contributing("p.groupby('g').w.transform('sum')", 4) == same_group
    assert contributing("p.groupby('g').w.cumsum()", 4) == {("w", 1), ("w", 4)}
    assert contributing("p.groupby('g').w.transform('max')", 4) == {
        ("w", int(GIVEN.w[[1, 4, 7]].idxmax()))
    }
    assert contributing("p.w.mean() * p.n", 3) == {("n", 3)} | {("w", i) for i in range(ROWS)}
    assert contributing("p.w.rank()", 3) == {("w", 3)}
    assert contributing("p.g.str.upper()", 3) == {("g", 3)}
    assert contributing("p.t.dt.day", 3) == {("t", 3)}
    assert contributing("p[['w', 'n']].max(axis=1)", 1) == {
        ("w" if GIVEN.w[1] > GIVEN.n[1] else "n", 1)
    }


def test_a_constant_is_made_of_nothing_and_a_count_of_all_rows():
    constant = function_of("p.assign(kind='a')[['w', 'kind']]", False)
    _, answer = follow_groups(constant, constant, None, [GIVEN.copy()])
    assert answer.doubt == [None] * ROWS
    assert named_in(answer, 2, 2) == {0: {(4, 2)}, 1: set()}
    counted = function_of("p.assign(rows=len(p))[['w', 'rows']]", False)
    _, answer = follow_groups(counted, counted, None, [GIVEN.copy()])
    assert all("column 'rows' is not made of tracked values" in doubt for doubt in answer.doubt)
    assert named_in(answer, 2, 2)[1] == {(i, row) for i in range(6) for row in range(ROWS)}


def test_text_of_values_leaves_and_that_in_an_error_of_pandas_does_not():
    told = function_of("p.assign(y=p.w.head(1).to_string())[['id', 'y']]", False)
    _, answer = follow_groups(told, told, None, [GIVEN.copy()])
    assert all("a value left" in doubt for doubt in answer.doubt)
    keyed = function_of("p.groupby((p.n > 3).cumsum()).w.sum().reset_index()", False)
    _, answer = follow_groups(keyed, keyed, None, [GIVEN.copy()])
    assert answer.doubt == [None] * len(answer.doubt)


def test_pandas_is_as_it_was_afterwards():
    before = {name: pd.Series.__dict__.get(name) for name in ("where", "str", "rolling")}
    function = function_of("p.w.rolling(2).mean()", True)
    follow_groups(function, function, None, [GIVEN.copy()])
    assert before == {name: pd.Series.__dict__.get(name) for name in before}
    assert not hasattr(pd.Series, "__array_function__")
    assert pd.cut(pd.Series([1, 5]), [0, 3, 9], labels=False).tolist() == [0, 1]


def test_a_thousand_branches_are_one_range():
    many = pd.DataFrame({"n": np.arange(1000) % 7})
    function = function_of("p.n.apply(lambda v: v + 1 if v > 2 else v)", False)

    def followed(p):
        return function(p).to_frame("y")

    _, answer = follow_groups(followed, followed, None, [many])
    assert answer.doubt[5] is None
    ranges = zip(answer.lo[5], answer.hi[5], answer.role[5], strict=True)
    assert sorted(ranges) == [(1, 1000, 0), (6, 6, 1)]


def test_many_single_numbers_are_not_followed_each():
    many = pd.DataFrame({"w": np.arange(30_000.0)})
    function = function_of("pd.DataFrame({'y': [v * 2 for v in p.w]})", False)
    _, answer = follow_groups(function, function, None, [many])
    assert "too many single numbers" in answer.doubt[0]
    assert (answer.lo[7][0], answer.hi[7][0]) == (1, 30_000)
